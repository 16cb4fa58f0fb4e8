// What every compiled component shares: bytes, digests, canonical forms, and the set of known states.
#pragma once
#include "runtime.hpp"
#include <chrono>
#include <unordered_map>

namespace cp {

// Bytes and JSON -------------------------------------------------------------------------------------------------------

using Bytes = std::vector<uint8_t>;

inline void put(Bytes& out, Int a) {
    uint64_t z = (uint64_t(a) << 1) ^ uint64_t(a >> 63);
    while (z >= 128) { out.push_back(uint8_t(z | 128)); z >>= 7; }
    out.push_back(uint8_t(z));
}
inline void put(Bytes& out, bool a) { out.push_back(a); }
template <class T> T take(const uint8_t*& in);
template <> inline Int take<Int>(const uint8_t*& in) {
    uint64_t z = 0;
    for (int shift = 0;; shift += 7) { const uint8_t b = *in++; z |= uint64_t(b & 127) << shift; if (b < 128) break; }
    return Int(z >> 1) ^ -Int(z & 1);
}
template <> inline bool take<bool>(const uint8_t*& in) { return *in++ != 0; }
template <class T> struct Taken;
template <class T> struct Taken<Opt<T>> { static Opt<T> from(const uint8_t*& in) { if (!*in++) return {}; return {true, take<T>(in)}; } };
template <class T> struct Taken<Seq<T>> {
    static Seq<T> from(const uint8_t*& in) { const Int n = take<Int>(in); T* made = room<T>(n); for (Int i = 0; i < n; ++i) made[i] = take<T>(in); return {made, n}; }
};
template <class T> struct Taken<Set<T>> { static Set<T> from(const uint8_t*& in) { const auto all = Taken<Seq<T>>::from(in); return {all.p, all.n}; } };
template <class T> struct Taken<List<T>> { static List<T> from(const uint8_t*& in) { return List<T>::of(Taken<Seq<T>>::from(in)); } };
template <class K, class V> struct Taken<Map<K, V>> {
    static Map<K, V> from(const uint8_t*& in) {
        const Int n = take<Int>(in);
        auto* made = room<Pair<K, V>>(n);
        for (Int i = 0; i < n; ++i) { made[i].key = take<K>(in); made[i].value = take<V>(in); }
        return {made, n};
    }
};
template <class K> struct Taken<Queue<K>> {
    static Queue<K> from(const uint8_t*& in) {
        const Int n = take<Int>(in);
        auto* made = room<Waiting<K>>(n);
        for (Int i = 0; i < n; ++i) { made[i].key = take<K>(in); made[i].weight = take<Int>(in); }
        return {made, n};
    }
};
template <class T> T take(const uint8_t*& in) { return Taken<T>::from(in); }
template <class T> void put(Bytes& out, const Opt<T>& a) { out.push_back(a.has); if (a.has) put(out, a.value); }
template <class T> void put(Bytes& out, const Seq<T>& a) { put(out, a.n); for (const T& each : a) put(out, each); }
template <class T> void put(Bytes& out, const Set<T>& a) { put(out, a.seq()); }
template <class T> void put(Bytes& out, const List<T>& a) { put(out, a.seq()); }
template <class K, class V> void put(Bytes& out, const Map<K, V>& a) { put(out, a.n); for (Int i = 0; i < a.n; ++i) { put(out, a.p[i].key); put(out, a.p[i].value); } }
template <class K> void put(Bytes& out, const Queue<K>& a) { put(out, a.n); for (Int i = 0; i < a.n; ++i) { put(out, a.p[i].key); put(out, a.p[i].weight); } }

inline void json(std::string& out, Int a) { char text[24]; out.append(text, size_t(std::snprintf(text, sizeof text, "%lld", static_cast<long long>(a)))); }
inline void json(std::string& out, bool a) { out += a ? "true" : "false"; }
template <class T> void json(std::string& out, const Opt<T>& a) { if (a.has) json(out, a.value); else out += "null"; }
template <class T> void json(std::string& out, const Seq<T>& a) { out += '['; for (Int i = 0; i < a.n; ++i) { if (i) out += ','; json(out, a.p[i]); } out += ']'; }
template <class T> void json(std::string& out, const List<T>& a) { json(out, a.seq()); }
template <class T> void json(std::string& out, const Set<T>& a) { json(out, a.seq()); }
template <class K, class V> void json(std::string& out, const Map<K, V>& a) {
    out += '[';
    for (Int i = 0; i < a.n; ++i) { if (i) out += ','; out += '['; json(out, a.p[i].key); out += ','; json(out, a.p[i].value); out += ']'; }
    out += ']';
}
template <class K> void json(std::string& out, const Queue<K>& a) {
    out += '[';
    for (Int i = 0; i < a.n; ++i) { if (i) out += ','; out += '['; json(out, a.p[i].key); out += ','; json(out, a.p[i].weight); out += ']'; }
    out += ']';
}

// BLAKE2b with eight bytes (RFC 7693) --------------------------------------------------------------------------------------

inline uint64_t digest_of(const std::string& text) {
    static const uint64_t IV[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
    static const uint8_t S[12][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};
    uint64_t h[8];
    std::copy(IV, IV + 8, h);
    h[0] ^= 0x01010000 ^ 8;
    const size_t size = text.size();
    size_t at = 0;
    do {
        const size_t part = std::min<size_t>(128, size - at);
        uint8_t block[128] = {0};
        std::memcpy(block, text.data() + at, part);
        at += part;
        uint64_t m[16], v[16];
        std::memcpy(m, block, 128);
        std::copy(h, h + 8, v);
        std::copy(IV, IV + 8, v + 8);
        v[12] ^= at;
        if (at == size) v[14] = ~v[14];
        auto turn = [](uint64_t x, int n) { return (x >> n) | (x << (64 - n)); };
        auto mix = [&](int a, int b, int c, int d, uint64_t x, uint64_t y) {
            v[a] += v[b] + x; v[d] = turn(v[d] ^ v[a], 32); v[c] += v[d]; v[b] = turn(v[b] ^ v[c], 24);
            v[a] += v[b] + y; v[d] = turn(v[d] ^ v[a], 16); v[c] += v[d]; v[b] = turn(v[b] ^ v[c], 63);
        };
        for (const auto& s : S) {
            mix(0, 4, 8, 12, m[s[0]], m[s[1]]); mix(1, 5, 9, 13, m[s[2]], m[s[3]]); mix(2, 6, 10, 14, m[s[4]], m[s[5]]); mix(3, 7, 11, 15, m[s[6]], m[s[7]]);
            mix(0, 5, 10, 15, m[s[8]], m[s[9]]); mix(1, 6, 11, 12, m[s[10]], m[s[11]]); mix(2, 7, 8, 13, m[s[12]], m[s[13]]); mix(3, 4, 9, 14, m[s[14]], m[s[15]]);
        }
        for (int i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[i + 8];
    } while (at < size);
    return __builtin_bswap64(h[0]);
}

// Ranks ------------------------------------------------------------------------------------------------------------------

struct Ranks {  // for each sort the ranks that occur, and then their numbers
    struct Numbered { Int rank, number; };
    Builder<Numbered>* of;
    size_t sorts;
    explicit Ranks(size_t count) : of(room<Builder<Numbered>>(Int(count))), sorts(count) { for (size_t i = 0; i < count; ++i) of[i] = {}; }
    void add(size_t sort, Int rank) { of[sort].add({rank, 0}); }
    void settle() {
        for (size_t sort = 0; sort < sorts; ++sort) {
            auto& ranks = of[sort];
            std::sort(ranks.p, ranks.p + ranks.n, [](const Numbered& x, const Numbered& y) { return x.rank < y.rank; });
            Int before = 0, number = 0;
            for (Int i = 0; i < ranks.n; ++i) {
                if (i) number += std::min<Int>(ranks.p[i].rank - before, 2);
                ranks.p[i].number = number;
                before = ranks.p[i].rank;
            }
        }
    }
    Int number(size_t sort, Int rank) const { for (Int i = 0;; ++i) if (of[sort].p[i].rank == rank) return of[sort].p[i].number; }
};

// Names ------------------------------------------------------------------------------------------------------------------

struct Tree { bool is_leaf = true; Int value = 0; Seq<Tree> parts; };
inline Tree leaf(Int value) { return {true, value, {}}; }
inline Tree node(Seq<Tree> parts) { return {false, 0, parts}; }
inline Tree node(std::initializer_list<Tree> parts) { return node(seq_of<Tree>(parts)); }
inline bool less(const Tree& a, const Tree& b);
inline bool eq(const Tree& a, const Tree& b);
inline bool less(const Tree& a, const Tree& b) {
    if (a.is_leaf || b.is_leaf) return a.is_leaf && (!b.is_leaf || a.value < b.value);
    for (Int i = 0; i < a.parts.n && i < b.parts.n; ++i) { if (less(a.parts.p[i], b.parts.p[i])) return true; if (less(b.parts.p[i], a.parts.p[i])) return false; }
    return a.parts.n < b.parts.n;
}
inline bool eq(const Tree& a, const Tree& b) {
    if (a.is_leaf != b.is_leaf) return false;
    if (a.is_leaf) return a.value == b.value;
    if (a.parts.n != b.parts.n) return false;
    for (Int i = 0; i < a.parts.n; ++i) if (!eq(a.parts.p[i], b.parts.p[i])) return false;
    return true;
}

struct Path {
    Seq<Tree> steps;
    Path with(const Tree& step) const { Tree* made = room<Tree>(steps.n + 1); std::copy(steps.begin(), steps.end(), made); made[steps.n] = step; return {{made, steps.n + 1}}; }
};

struct Names {  // where each name goes; a sort that is not there stays
    std::vector<std::vector<Int>> to;
    Int of(size_t sort, Int name) const { return name >= 0 && !to[sort].empty() ? to[sort].at(size_t(name)) : name; }
    Int place(size_t sort, Int name) const { return to[sort].empty() ? name : to[sort].at(size_t(name)); }
};

struct Colours {
    std::vector<std::vector<Int>> of_sort;  // empty where the names of a sort are not exchanged
    bool active(size_t sort) const { return !of_sort[sort].empty(); }
    Int of(size_t sort, Int name) const { return of_sort[sort].at(size_t(name)); }
    Tree erased(size_t sort, Int name) const {
        if (!active(sort)) return leaf(name);
        const auto& known = of_sort[sort];
        return 0 <= name && name < Int(known.size()) ? node({leaf(0), leaf(known[size_t(name)])}) : node({leaf(1), leaf(name)});
    }
};

struct Signatures {
    const Colours& colours;
    std::vector<std::vector<std::vector<Tree>>> paths;  // by sort and name
    explicit Signatures(const Colours& known) : colours(known), paths(known.of_sort.size()) { for (size_t s = 0; s < paths.size(); ++s) paths[s].resize(known.of_sort[s].size()); }
    void note(size_t sort, Int name, Int place, const Path& path) {
        if (0 <= name && name < Int(paths[sort].size())) paths[sort][size_t(name)].push_back(node({leaf(place), node(path.steps)}));
    }
};

inline int compared(const std::vector<Tree>& a, const std::vector<Tree>& b) {
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) { if (less(a[i], b[i])) return -1; if (less(b[i], a[i])) return 1; }
    return a.size() < b.size() ? -1 : a.size() > b.size();
}

using Classes = std::vector<std::vector<std::vector<Int>>>;  // by sort: groups of names that may be exchanged

struct Group { size_t sort; const std::vector<Int>* members; std::vector<std::vector<Int>> parts; };

template <class State> struct Symmetry {
    Classes classes;
    Colours first;
    void (*scan)(const State&, const Path&, Signatures&) = nullptr;
    State (*rename)(const State&, const Names&) = nullptr;
    static constexpr double FEW = 6;

    struct Grouped { std::vector<Group> groups; double candidates; Colours colours; };

    Grouped grouped(const State& state, Colours colours, bool by_colour) const {
        while (true) {
            Signatures found(colours);
            scan(state, Path{}, found);
            for (auto& sort : found.paths) for (auto& paths : sort) std::sort(paths.begin(), paths.end(), Before<Tree>{});
            Grouped made{{}, 1, colours};
            for (size_t sort = 0; sort < classes.size(); ++sort) {
                if (!colours.active(sort)) continue;
                for (const auto& members : classes[sort]) made.groups.push_back({sort, &members, parted(members, found.paths[sort], by_colour ? &colours.of_sort[sort] : nullptr)});
            }
            for (const auto& group : made.groups) for (const auto& part : group.parts) for (size_t i = 2; i <= part.size(); ++i) made.candidates *= double(i);
            if (made.candidates <= FEW) return made;
            Colours finer = colours;
            bool same = true;
            for (size_t sort = 0; sort < classes.size(); ++sort) {
                if (!colours.active(sort)) continue;
                finer.of_sort[sort] = refined(colours.of_sort[sort], found.paths[sort]);
                same = same && distinct(finer.of_sort[sort]) == distinct(colours.of_sort[sort]);
            }
            if (same) return made;
            colours = finer;
        }
    }
    static size_t distinct(std::vector<Int> all) { std::sort(all.begin(), all.end()); return size_t(std::unique(all.begin(), all.end()) - all.begin()); }
    static std::vector<Int> refined(const std::vector<Int>& colours, const std::vector<std::vector<Tree>>& found) {
        std::vector<size_t> order(colours.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        auto before = [&](size_t a, size_t b) { return colours[a] != colours[b] ? colours[a] < colours[b] : compared(found[a], found[b]) < 0; };
        std::stable_sort(order.begin(), order.end(), before);
        std::vector<Int> ranks(colours.size());
        for (size_t i = order.size(); i-- > 0;) ranks[order[i]] = i + 1 < order.size() && !before(order[i], order[i + 1]) ? ranks[order[i + 1]] : Int(i);
        return ranks;
    }
    static std::vector<std::vector<Int>> parted(const std::vector<Int>& members, const std::vector<std::vector<Tree>>& found, const std::vector<Int>* colours) {
        if (members.size() == 1) return {{members[0]}};
        auto key = [&](Int a, Int b) {
            const bool none_a = found[size_t(a)].empty(), none_b = found[size_t(b)].empty();
            if (none_a != none_b) return none_b ? -1 : 1;
            if (colours && (*colours)[size_t(a)] != (*colours)[size_t(b)]) return (*colours)[size_t(a)] < (*colours)[size_t(b)] ? -1 : 1;
            return compared(found[size_t(a)], found[size_t(b)]);
        };
        std::vector<Int> order = members;
        std::stable_sort(order.begin(), order.end(), [&](Int a, Int b) { return key(a, b) < 0; });
        std::vector<std::vector<Int>> parts;
        for (Int name : order) {
            if (!parts.empty() && !found[size_t(name)].empty() && key(name, parts.back().back()) == 0) parts.back().push_back(name);
            else parts.push_back({name});
        }
        return parts;
    }
    Names identity() const {
        Names names;
        names.to.resize(classes.size());
        for (size_t sort = 0; sort < classes.size(); ++sort)
            if (first.active(sort)) { names.to[sort].resize(first.of_sort[sort].size()); for (size_t i = 0; i < names.to[sort].size(); ++i) names.to[sort][i] = Int(i); }
        return names;
    }
    void try_orders(const State& state, std::vector<Group>& groups, size_t group, size_t part, Names& names, State& best, bool& any) const {
        if (group == groups.size()) {
            bool moved = false;
            for (const auto& each : groups) {
                size_t at = 0;
                for (const auto& names_ : each.parts) for (Int old : names_) { const Int now = (*each.members)[at++]; names.to[each.sort][size_t(old)] = now; moved = moved || old != now; }
            }
            const State made = moved ? rename(state, names) : state;
            if (!any || less(made, best)) { best = made; any = true; }
            return;
        }
        if (part == groups[group].parts.size()) { try_orders(state, groups, group + 1, 0, names, best, any); return; }
        std::vector<Int>& own = groups[group].parts[part];
        const std::vector<Int> before = own;
        std::sort(own.begin(), own.end());
        do { try_orders(state, groups, group, part + 1, names, best, any); } while (std::next_permutation(own.begin(), own.end()));
        own = before;
    }
    void told_apart(const State& state, const Colours& colours, State& best, bool& any) const {
        Grouped made = grouped(state, colours, true);
        if (made.candidates <= FEW) { Names names = identity(); try_orders(state, made.groups, 0, 0, names, best, any); return; }
        for (const auto& group : made.groups)
            for (const auto& part : group.parts)
                if (part.size() > 1) {
                    for (Int name : part) {
                        Colours marked = made.colours;
                        for (Int& colour : marked.of_sort[group.sort]) colour *= 2;
                        marked.of_sort[group.sort][size_t(name)] -= 1;
                        told_apart(state, marked, best, any);
                    }
                    return;
                }
    }
    State least(const State& state) const {
        Grouped made = grouped(state, first, false);
        State best{};
        bool any = false;
        if (made.candidates <= FEW) { Names names = identity(); try_orders(state, made.groups, 0, 0, names, best, any); }
        else told_apart(state, made.colours, best, any);
        return best;
    }
};

// States -----------------------------------------------------------------------------------------------------------------

inline uint64_t hashed(const uint8_t* data, size_t size) {
    uint64_t h = 0x9e3779b97f4a7c15ull ^ size;
    while (size >= 8) { uint64_t x; std::memcpy(&x, data, 8); h = (h ^ x) * 0xff51afd7ed558ccdull; h ^= h >> 32; data += 8; size -= 8; }
    uint64_t x = 0;
    std::memcpy(&x, data, size);
    h = (h ^ x) * 0xc4ceb9fe1a85ec53ull;
    return h ^ (h >> 29);
}

struct Known {  // every state that was found, by its number, as bytes
    static constexpr size_t CHUNK = size_t(1) << 22;
    std::vector<uint8_t*> chunks;
    size_t used = CHUNK;
    std::vector<const uint8_t*> rows;
    std::vector<uint32_t> sizes;
    std::vector<uint64_t> hashes;
    std::vector<uint32_t> table = std::vector<uint32_t>(1 << 12, 0);
    size_t size() const { return rows.size(); }
    size_t bytes() const { return chunks.size() * CHUNK + rows.capacity() * 20 + table.size() * 4; }
    std::pair<size_t, bool> find_or_add(const Bytes& row) {
        const uint64_t hash = hashed(row.data(), row.size());
        size_t at = hash & (table.size() - 1);
        while (table[at]) {
            const size_t place = table[at] - 1;
            if (hashes[place] == hash && sizes[place] == row.size() && std::memcmp(rows[place], row.data(), row.size()) == 0) return {place, false};
            at = (at + 1) & (table.size() - 1);
        }
        if (rows.size() >= UINT32_MAX - 1) fail("more states than can be numbered");
        if (row.size() > CHUNK) fail("a state that is too large");
        if (used + row.size() > CHUNK) { chunks.push_back(static_cast<uint8_t*>(std::malloc(CHUNK))); used = 0; }
        uint8_t* own = chunks.back() + used;
        std::memcpy(own, row.data(), row.size());
        used += row.size();
        rows.push_back(own);
        sizes.push_back(uint32_t(row.size()));
        hashes.push_back(hash);
        table[at] = uint32_t(rows.size());
        if (rows.size() * 2 > table.size()) grow();
        return {rows.size() - 1, true};
    }
    void grow() {
        table.assign(table.size() * 2, 0);
        for (size_t place = 0; place < rows.size(); ++place) {
            size_t at = hashes[place] & (table.size() - 1);
            while (table[at]) at = (at + 1) & (table.size() - 1);
            table[at] = uint32_t(place + 1);
        }
    }
    ~Known() { for (auto* each : chunks) std::free(each); }
};

struct Remembered {  // what steps have led to lately: the row of a state as it came out, and the number of its canonical form
    struct Entry { uint64_t hash = 0; size_t place = 0; Bytes row; };
    std::vector<Entry> entries = std::vector<Entry>(size_t(1) << 15);
    Entry& at(uint64_t hash) { return entries[hash & (entries.size() - 1)]; }
};

}  // namespace cp
