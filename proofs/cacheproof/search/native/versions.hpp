// `Map` and `Queue` of the specification for states of production size: what follows a log, or answers calls, has them in place of
// the explorer's.
//
// A small one is a sorted sequence, as there. A large one is a version of a table (Baker 1978, shallow binding), as the rerooting
// containers in Python: the newest version owns the table, which is changed in place, and an older one knows the change that leads
// back to it. Reading an older version turns the table towards it. After more turning than a version is long, that version takes a
// table of its own.
//
// A table lies in the arena of the steps. What functions remember is kept elsewhere, for longer, and so never holds a table.
#pragma once

namespace cp {

constexpr Int FEW = 24;  // the most elements that are kept as a sequence

// Hashes of keys. Those of structs are made with the structs.
inline uint64_t hash_mixed(uint64_t a, uint64_t b) { const auto made = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xe7037ed1a0b428dbull); return uint64_t(made) ^ uint64_t(made >> 64); }
inline uint64_t hash_of(Int a) { return hash_mixed(uint64_t(a), 0x2545f4914f6cdd1dull); }
inline uint64_t hash_of(bool a) { return hash_of(Int(a)); }
inline uint64_t hash_of(Unit) { return 0; }
inline uint64_t hash_of(Bottom) { return 0; }
inline uint64_t hash_of(Text a) { return hash_of(a.id); }
template <class T> uint64_t hash_of(const Opt<T>& a) { return a.has ? hash_mixed(hash_of(a.value), 1) : 0; }
template <class T> uint64_t hash_of(const Seq<T>& a) { uint64_t made = uint64_t(a.n); for (const T& each : a) made = hash_mixed(hash_of(each), made); return made; }
template <class T> uint64_t hash_of(const Set<T>& a) { return hash_of(a.seq()); }

template <class K, class V> struct HashTable {  // open addressing; a mark is 0 where nothing is
    struct Slot { K key; V value; };
    static constexpr size_t NOWHERE = SIZE_MAX, LEAST = 64;
    uint8_t* marks = nullptr;
    Slot* slots = nullptr;
    size_t mask = 0;
    Int n = 0;
    static uint8_t mark_of(uint64_t hash) { return uint8_t(hash >> 56) | 1; }
    static size_t places_for(Int count) { size_t wanted = LEAST; while (wanted * 3 < size_t(count) * 5) wanted *= 2; return wanted; }
    void make(size_t places) {
        marks = room<uint8_t>(Int(places));
        std::memset(marks, 0, places);
        slots = room<Slot>(Int(places));
        mask = places - 1;
        n = 0;
    }
    size_t find(const K& key) const {
        const uint64_t hash = hash_of(key);
        const uint8_t mark = mark_of(hash);
        for (size_t i = hash & mask; marks[i]; i = (i + 1) & mask) if (marks[i] == mark && eq(slots[i].key, key)) return i;
        return NOWHERE;
    }
    void reserve() { if (size_t(n + 1) * 4 > (mask + 1) * 3) grow(); }  // room for one more
    void add(const K& key, const V& value) {  // a key that is not there
        reserve();
        const uint64_t hash = hash_of(key);
        size_t i = hash & mask;
        while (marks[i]) i = (i + 1) & mask;
        marks[i] = mark_of(hash);
        slots[i] = {key, value};
        ++n;
    }
    [[gnu::noinline]] void grow() {
        HashTable made;
        made.make((mask + 1) * 2);
        for (size_t i = 0; i <= mask; ++i) if (marks[i]) made.add(slots[i].key, slots[i].value);
        *this = made;
    }
    void drop(size_t i) {  // those behind it move up, so that none is cut off from its place
        for (size_t j = (i + 1) & mask; marks[j]; j = (j + 1) & mask) {
            const size_t home = hash_of(slots[j].key) & mask;
            if (((j - home) & mask) < ((j - i) & mask)) continue;
            slots[i] = slots[j];
            marks[i] = marks[j];
            i = j;
        }
        marks[i] = 0;
        --n;
    }
    HashTable again() const {
        HashTable made;
        made.make(mask + 1);
        std::memcpy(made.marks, marks, mask + 1);
        copy_bytes(made.slots, slots, Int(mask + 1));
        made.n = n;
        return made;
    }
};

// Versions of a body. The newest owns it; each other one has the change that leads from its neighbour back to itself.
typedef __int128 Wide __attribute__((aligned(8)));  // a sum of numbers, which may be too large for one of them only in between
inline Int narrow(Wide a) { if (a < INT64_MIN || a > INT64_MAX) overflow(); return Int(a); }
template <class Body> struct Version {
    Body* body;
    Version* nearer = nullptr;
    typename Body::Change back{};
    Wide total = 0;
    Body& owned(Int length) {
        if (!body) turn(length);
        return *body;
    }
    [[gnu::noinline]] void turn(Int length) {
        Builder<Version*> way;
        Version* owner = this;
        for (; !owner->body; owner = owner->nearer) way.add(owner);
        owner->body->turned += way.n;
        if (owner->body->turned > length) {  // leave the chain
            owner->body->turned = 0;
            Body* own = room<Body>(1);
            *own = owner->body->again();
            for (Int i = way.n; i-- > 0;) own->apply(way.p[i]->back);
            body = own;
            return;
        }
        for (Int i = way.n; i-- > 0;) {
            Version* next = way.p[i];
            Body* moved = owner->body;
            owner->back = moved->apply(next->back);
            owner->nearer = next;
            owner->body = nullptr;
            next->body = moved;
            owner = next;
        }
    }
    // The version after a change. All memory is taken before the body is touched: if there is none left, nothing has changed.
    Version* after(const typename Body::Change& change, Int weight, typename Body::Change& undo) {
        Version* made = room<Version>(1);
        body->reserve();
        *made = Version{body};
        undo = body->apply(change);
        made->total = total + weight - Body::weight_in(undo);
        back = undo;
        nearer = made;
        body = nullptr;
        return made;
    }
    static Version* first(const Body& made, Wide sum) {
        Body* own = room<Body>(1);
        *own = made;
        Version* version = room<Version>(1);
        *version = Version{own};
        version->total = sum;
        return version;
    }
};
inline bool is_lasting() { return context->arena == context->lasting; }

template <class T> Int weight_of(const T& value) { if constexpr (std::is_same_v<T, Int>) return value; else return 0; }

template <class K, class V> struct MapBody {
    struct Change { K key; bool there; V value; };
    HashTable<K, V> table;
    Int turned = 0;
    MapBody again() const { return {table.again()}; }
    void reserve() { table.reserve(); }
    static Int weight_in(const Change& undo) { return undo.there ? weight_of(undo.value) : 0; }
    Change apply(const Change& change) {
        const size_t i = table.find(change.key);
        const bool there = i != table.NOWHERE;
        const Change undo{change.key, there, there ? table.slots[i].value : V{}};
        if (!change.there) { if (there) table.drop(i); }
        else if (there) table.slots[i].value = change.value;
        else table.add(change.key, change.value);
        return undo;
    }
};

template <class K, class V> struct Map {
    using Body = MapBody<K, V>;
    const Pair<K, V>* p = nullptr;  // of few: sorted by key
    Int n = 0;
    Version<Body>* many = nullptr;
    Int size() const { return n; }
    Body& body() const { return many->owned(n); }
    Int place(const K& key) const {
        if (n > FEW) return Int(first_from(p, p + n, Pair<K, V>{key, {}}, [](const Pair<K, V>& a, const Pair<K, V>& b) { return less(a.key, b.key); }) - p);
        Int i = 0;
        while (i < n && less(p[i].key, key)) ++i;
        return i;
    }
    bool there(Int i, const K& key) const { return i < n && eq(p[i].key, key); }
    bool has(const K& key) const { return many ? body().table.find(key) != SIZE_MAX : there(place(key), key); }
    V get(const K& key, const V& other) const {
        if (many) {
            const auto& table = body().table;
            const size_t i = table.find(key);
            return i == SIZE_MAX ? other : table.slots[i].value;
        }
        const Int i = place(key);
        return there(i, key) ? p[i].value : other;
    }
    static Map of_many(Seq<Pair<K, V>> pairs) {
        Body made;
        made.table.make(made.table.places_for(pairs.n));
        Wide sum = 0;
        for (const auto& each : pairs) { made.table.add(each.key, each.value); sum += weight_of(each.value); }
        return {nullptr, pairs.n, Version<Body>::first(made, sum)};
    }
    Map set(const K& key, const V& value) const {
        if (!many) {
            const Int i = place(key);
            const bool known = there(i, key);
            if (n >= FEW && (n > FEW || !known)) return of_many({p, n}).set(key, value);
            const Int size = n + (known ? 0 : 1);
            auto* made = room<Pair<K, V>>(size);
            copy_items(p, p + i, made);
            made[i] = {key, value};
            copy_items(p + i + (known ? 1 : 0), p + n, made + i + 1);
            return {made, size};
        }
        body();
        typename Body::Change undo;
        Version<Body>* made = many->after({key, true, value}, weight_of(value), undo);
        return {nullptr, n + (undo.there ? 0 : 1), made};
    }
    Map remove(const K& key) const {
        if (!many) {
            const Int i = place(key);
            if (!there(i, key)) return *this;
            auto* made = room<Pair<K, V>>(n - 1);
            copy_items(p, p + i, made);
            copy_items(p + i + 1, p + n, made + i);
            return {made, n - 1};
        }
        if (body().table.find(key) == SIZE_MAX) return *this;
        typename Body::Change undo;
        return {nullptr, n - 1, many->after({key, false, {}}, 0, undo)};
    }
    Int total() const {
        if constexpr (std::is_same_v<V, Int>) {
            if (many) return narrow(many->total);
            Int sum = 0;
            for (Int i = 0; i < n; ++i) sum = plus(sum, p[i].value);
            return sum;
        } else fail("a sum of what is no number");
    }
    Seq<Pair<K, V>> unsorted() const {
        if (!many) return {p, n};
        const auto& table = body().table;
        auto* made = room<Pair<K, V>>(n);
        Int at = 0;
        for (size_t i = 0; i <= table.mask; ++i) if (table.marks[i]) made[at++] = {table.slots[i].key, table.slots[i].value};
        return {made, at};
    }
    Seq<Pair<K, V>> pairs() const {  // sorted by key
        const auto made = unsorted();
        if (many) order_freely(const_cast<Pair<K, V>*>(made.p), const_cast<Pair<K, V>*>(made.p) + made.n, [](const Pair<K, V>& a, const Pair<K, V>& b) { return less(a.key, b.key); });
        return made;
    }
};
template <class K, class V> bool eq(Map<K, V> const& a, Map<K, V> const& b) {
    if (a.n != b.n) return false;
    if (a.many ? a.many == b.many : a.p == b.p && !b.many) return true;
    const auto mine = a.pairs(), other = b.pairs();
    for (Int i = 0; i < mine.n; ++i) if (!eq(mine.p[i].key, other.p[i].key) || !eq(mine.p[i].value, other.p[i].value)) return false;
    return true;
}
template <class K, class V> bool less(Pair<K, V> const& a, Pair<K, V> const& b) { return less(a.key, b.key) || (!less(b.key, a.key) && less(a.value, b.value)); }
template <class K, class V> bool less(Map<K, V> const& a, Map<K, V> const& b) {
    const auto mine = a.pairs(), other = b.pairs();
    for (Int i = 0; i < mine.n && i < other.n; ++i) { if (less(mine.p[i], other.p[i])) return true; if (less(other.p[i], mine.p[i])) return false; }
    return mine.n < other.n;
}
template <class K, class V> Map<K, V> copy(Map<K, V> const& a) {
    const bool many = a.many && !is_lasting();
    const auto from = many ? a.unsorted() : a.pairs();
    auto* made = room<Pair<K, V>>(from.n);
    for (Int i = 0; i < from.n; ++i) made[i] = {copy(from.p[i].key), copy(from.p[i].value)};
    return many ? Map<K, V>::of_many({made, from.n}) : Map<K, V>{made, from.n};
}
template <class K, class V, class T, class F, class G> Map<K, V> map_of(Seq<T> all, F key, G value) { Map<K, V> made; for (const T& each : all) made = made.set(key(each), value(each)); return made; }
template <class K, class V, class A, class B, class F, class G> Map<K, V> convert_map(Map<A, B> all, F key, G value) { Map<K, V> made; for (const auto& each : all.pairs()) made = made.set(key(each.key), value(each.value)); return made; }

template <class K> struct Waiting { K key; Int weight; };

template <class K> struct QueueBody {  // a line, linked in both directions; node 0 is before the oldest and after the newest
    struct Change { K key; bool there; Int weight; bool in_front; K behind; };
    struct Node { K key; Int weight; Int older, newer; };
    HashTable<K, Int> places;
    Node* nodes = nullptr;
    Int used = 1, most = 0, unused = 0;  // `unused` begins a list of nodes that were given up
    Int turned = 0;
    void make(Int count) {
        places.make(places.places_for(count));
        most = count + 1;
        nodes = room<Node>(most);
        nodes[0] = Node{K{}, 0, 0, 0};
        used = 1;
        unused = 0;
    }
    QueueBody again() const {
        QueueBody made = *this;
        made.places = places.again();
        made.nodes = room<Node>(most);
        copy_bytes(made.nodes, nodes, used);
        made.turned = 0;
        return made;
    }
    Int node_of(const K& key) const { const size_t i = places.find(key); return i == SIZE_MAX ? 0 : places.slots[i].value; }
    void reserve() {
        places.reserve();
        if (unused || used < most) return;
        auto* moved = room<Node>(most * 2);
        copy_bytes(moved, nodes, used);
        nodes = moved;
        most *= 2;
    }
    static Int weight_in(const Change& undo) { return undo.there ? undo.weight : 0; }
    void link(const K& key, Int weight, Int behind) {
        reserve();
        Int own = unused;
        if (own) unused = nodes[own].newer;
        else own = used++;
        const Int newer = nodes[behind].newer;
        nodes[own] = {key, weight, behind, newer};
        nodes[behind].newer = own;
        nodes[newer].older = own;
        places.add(key, own);
    }
    void unlink(Int own) {
        nodes[nodes[own].older].newer = nodes[own].newer;
        nodes[nodes[own].newer].older = nodes[own].older;
        places.drop(places.find(nodes[own].key));
        nodes[own].newer = unused;
        unused = own;
    }
    Change apply(const Change& change) {
        const Int own = node_of(change.key);
        Change undo{change.key, own != 0, 0, true, K{}};
        if (own) {
            const Node& node = nodes[own];
            undo.weight = node.weight;
            undo.in_front = node.older == 0;
            if (node.older) undo.behind = nodes[node.older].key;
            unlink(own);
        }
        if (change.there) link(change.key, change.weight, change.in_front ? 0 : node_of(change.behind));
        return undo;
    }
};

template <class K> struct Queue {
    using Body = QueueBody<K>;
    const Waiting<K>* p = nullptr;  // of few: the oldest first
    Int n = 0;
    Version<Body>* many = nullptr;
    Int size() const { return n; }
    Body& body() const { return many->owned(n); }
    Int find(const K& key) const { for (Int i = 0; i < n; ++i) if (eq(p[i].key, key)) return i; return -1; }
    bool has(const K& key) const { return many ? body().node_of(key) != 0 : find(key) >= 0; }
    Int weight(const K& key, Int other) const {
        if (many) { const Int own = body().node_of(key); return own ? body().nodes[own].weight : other; }
        const Int i = find(key);
        return i < 0 ? other : p[i].weight;
    }
    static Queue of_many(Seq<Waiting<K>> all) {
        Body made;
        made.make(all.n);
        Wide sum = 0;
        for (const auto& each : all) { made.link(each.key, each.weight, made.nodes[0].older); sum += each.weight; }
        return {nullptr, all.n, Version<Body>::first(made, sum)};
    }
    Queue without(const K& key, bool front, bool back, Int weight) const {
        auto* made = room<Waiting<K>>(n + 1);
        Int count = 0;
        if (front) made[count++] = {key, weight};
        for (Int i = 0; i < n; ++i) if (!eq(p[i].key, key)) made[count++] = p[i];
        if (back) made[count++] = {key, weight};
        return {made, count};
    }
    Queue placed(const K& key, Int weight, bool front) const {
        if (!many) return n >= FEW ? of_many({p, n}).placed(key, weight, front) : without(key, front, !front, weight);
        Body& own = body();
        typename Body::Change change{key, true, weight, front, K{}};
        if (!front) {
            Int newest = own.nodes[0].older;
            if (newest && eq(own.nodes[newest].key, key)) newest = own.nodes[newest].older;
            change.in_front = newest == 0;
            if (newest) change.behind = own.nodes[newest].key;
        }
        typename Body::Change undo;
        Version<Body>* made = many->after(change, weight, undo);
        return {nullptr, n + (undo.there ? 0 : 1), made};
    }
    Queue push(const K& key, Int weight) const { return placed(key, weight, false); }
    Queue push_front(const K& key, Int weight) const { return placed(key, weight, true); }
    Queue remove(const K& key) const {
        if (!many) return find(key) < 0 ? *this : without(key, false, false, 0);
        if (!body().node_of(key)) return *this;
        typename Body::Change undo;
        return {nullptr, n - 1, many->after({key, false, 0, true, K{}}, 0, undo)};
    }
    K oldest(const K& other) const {
        if (!n) return other;
        if (!many) return p[0].key;
        const Body& own = body();
        return own.nodes[own.nodes[0].newer].key;
    }
    template <class M> K oldest_outside(const M& excluded, const K& other) const {
        if (!many) { for (Int i = 0; i < n; ++i) if (!excluded.has(p[i].key)) return p[i].key; return other; }
        const Body& own = body();
        for (Int i = own.nodes[0].newer; i; i = own.nodes[i].newer) if (!excluded.has(own.nodes[i].key)) return own.nodes[i].key;
        return other;
    }
    Int total() const {
        if (many) return narrow(many->total);
        Int sum = 0;
        for (Int i = 0; i < n; ++i) sum = plus(sum, p[i].weight);
        return sum;
    }
    Seq<Waiting<K>> all() const {  // the oldest first
        if (!many) return {p, n};
        const Body& own = body();
        auto* made = room<Waiting<K>>(n);
        Int at = 0;
        for (Int i = own.nodes[0].newer; i; i = own.nodes[i].newer) made[at++] = {own.nodes[i].key, own.nodes[i].weight};
        return {made, at};
    }
};
template <class K> bool eq(Queue<K> const& a, Queue<K> const& b) {
    if (a.n != b.n) return false;
    if (a.many ? a.many == b.many : a.p == b.p && !b.many) return true;
    const auto mine = a.all(), other = b.all();
    for (Int i = 0; i < mine.n; ++i) if (!eq(mine.p[i].key, other.p[i].key) || mine.p[i].weight != other.p[i].weight) return false;
    return true;
}
template <class K> bool less(Waiting<K> const& a, Waiting<K> const& b) { return less(a.key, b.key) || (!less(b.key, a.key) && a.weight < b.weight); }
template <class K> bool less(Queue<K> const& a, Queue<K> const& b) {
    const auto mine = a.all(), other = b.all();
    for (Int i = 0; i < mine.n && i < other.n; ++i) { if (less(mine.p[i], other.p[i])) return true; if (less(other.p[i], mine.p[i])) return false; }
    return mine.n < other.n;
}
template <class K> Queue<K> copy(Queue<K> const& a) {
    const auto from = a.all();
    auto* made = room<Waiting<K>>(from.n);
    for (Int i = 0; i < from.n; ++i) made[i] = {copy(from.p[i].key), from.p[i].weight};
    return a.many && !is_lasting() ? Queue<K>::of_many({made, from.n}) : Queue<K>{made, from.n};
}
template <class K, class V> Seq<Pair<K, V>> pairs_of(Map<K, V> const& a) { return a.pairs(); }
template <class K> Seq<Waiting<K>> items_in(Queue<K> const& a) { return a.all(); }
template <class K, class V> Map<K, V> map_from(Seq<Pair<K, V>> all) { return all.n > FEW ? Map<K, V>::of_many(all) : Map<K, V>{all.p, all.n}; }
template <class K> Queue<K> queue_from(Seq<Waiting<K>> all) { return all.n > FEW ? Queue<K>::of_many(all) : Queue<K>{all.p, all.n}; }
template <class K, class T, class F, class G> Queue<K> queue_of(Seq<T> all, F key, G weight) { auto* made = room<Waiting<K>>(all.n); for (Int i = 0; i < all.n; ++i) made[i] = {key(all.p[i]), weight(all.p[i])}; return queue_from(Seq<Waiting<K>>{made, all.n}); }
template <class To, class From, class F> Queue<To> convert_queue(Queue<From> from, F each) { return queue_of<To>(from.all(), [&](const Waiting<From>& a) { return each(a.key); }, [](const Waiting<From>& a) { return a.weight; }); }

template <class P, class K, class V> Seq<P> items_of(Map<K, V> const& a) { const auto from = a.pairs(); P* made = room<P>(from.n); for (Int i = 0; i < from.n; ++i) made[i] = P{from.p[i].key, from.p[i].value}; return {made, from.n}; }
template <class P, class K> Seq<P> items_of(Queue<K> const& a) { const auto from = a.all(); P* made = room<P>(from.n); for (Int i = 0; i < from.n; ++i) made[i] = P{from.p[i].key, from.p[i].weight}; return {made, from.n}; }

}  // namespace cp
