// Values of compiled specifications: sequences in an arena, and the containers of the specification on top of them.
//
// Nothing is ever freed one by one. What a step makes lies in an arena that is emptied before the next state is taken.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>
#ifdef CP_ON_DEVICE
#include "device_memory.hpp"
#else
#include "memory.hpp"
#endif

namespace cp {

constexpr Int END = INT64_MAX;

[[noreturn]] inline CP_DEVICE void unreachable() { fail("a function came to its end without a result"); }

// Scalars ----------------------------------------------------------------------------------------------------------

struct Unit {};
struct Bottom {};
struct Text { Int id = 0; };  // 0 is empty, -1 is a text that is made while running
template <class T> CP_DEVICE T bottom() { fail("an element of what is empty"); }

inline CP_DEVICE bool eq(Int a, Int b) { return a == b; }
inline CP_DEVICE bool eq(bool a, bool b) { return a == b; }
inline CP_DEVICE bool eq(Unit, Unit) { return true; }
inline CP_DEVICE bool eq(Bottom, Bottom) { return true; }
inline CP_DEVICE bool eq(Text a, Text b) { if (a.id < 0 || b.id < 0) fail("texts that are made while running are not compared"); return a.id == b.id; }
inline CP_DEVICE bool less(Int a, Int b) { return a < b; }
inline CP_DEVICE bool less(bool a, bool b) { return a < b; }
inline CP_DEVICE bool less(Unit, Unit) { return false; }
inline CP_DEVICE bool less(Bottom, Bottom) { return false; }
inline CP_DEVICE bool less(Text a, Text b) { return a.id < b.id; }
template <class T> CP_DEVICE T min_of(const T& a, const T& b) { return less(b, a) ? b : a; }
template <class T> CP_DEVICE T max_of(const T& a, const T& b) { return less(a, b) ? b : a; }
inline CP_DEVICE Int copy(Int a) { return a; }
inline CP_DEVICE bool copy(bool a) { return a; }
inline CP_DEVICE Unit copy(Unit a) { return a; }
inline CP_DEVICE Bottom copy(Bottom a) { return a; }
inline CP_DEVICE Text copy(Text a) { return a; }

inline CP_DEVICE CP_APART Int floor_div(Int a, Int b) {
    if (b == 0) fail("a division by zero");
    const Int q = a / b;
    return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
inline CP_DEVICE Int floor_mod(Int a, Int b) { return a - floor_div(a, b) * b; }
[[noreturn, gnu::noinline, gnu::cold]] inline CP_DEVICE void uneven() { fail("sequences of different lengths"); }
[[noreturn, gnu::noinline, gnu::cold]] inline CP_DEVICE void overflow() { fail("a number that does not fit into 64 bits"); }
inline CP_DEVICE Int plus(Int a, Int b) { Int made; if (sum_overflows(a, b, made)) overflow(); return made; }
inline CP_DEVICE Int minus(Int a, Int b) { Int made; if (difference_overflows(a, b, made)) overflow(); return made; }
inline CP_DEVICE Int times(Int a, Int b) { Int made; if (product_overflows(a, b, made)) overflow(); return made; }
inline CP_DEVICE Int power(Int a, Int b) { Int made = 1; for (Int i = 0; i < b; ++i) made = times(made, a); return made; }
inline CP_DEVICE Int shift_left(Int a, Int b) { if (b < 0 || b > 62) overflow(); return times(a, Int(1) << b); }
inline CP_DEVICE Int shift_right(Int a, Int b) { if (b < 0) fail("a negative shift"); return a >> min_of<Int>(b, 63); }
inline CP_DEVICE Int absolute(Int a) { return a < 0 ? -a : a; }
inline CP_DEVICE Int least(std::initializer_list<Int> all) { const Int* at = all.begin(); Int found = *at; while (++at != all.end()) if (*at < found) found = *at; return found; }
inline CP_DEVICE bool in_range(Int a, Int low, Int high) { return low <= a && a < high; }

// Sequences --------------------------------------------------------------------------------------------------------

template <class T> struct Opt {
    bool has = false;
    T value{};
    CP_DEVICE const T& get() const& { if (!has) fail("None where a value is needed"); return value; }
    CP_DEVICE T get() const&& { if (!has) fail("None where a value is needed"); return value; }
};

template <class T> struct Seq {
    const T* p = nullptr;
    Int n = 0;
    CP_DEVICE Int size() const { return n; }
    CP_DEVICE const T* begin() const { return p; }
    CP_DEVICE const T* end() const { return p + n; }
    CP_DEVICE const T& at(Int i) const {
        if (i < 0) i += n;
        if (i < 0 || i >= n) fail("a position that is not there");
        return p[i];
    }
    CP_DEVICE Seq slice(Int low, Int high) const {
        if (low < 0) low = max_of<Int>(0, low + n);
        if (high < 0) high = max_of<Int>(0, high + n);
        low = min_of<Int>(low, n);
        high = min_of<Int>(high, n);
        return low < high ? Seq{p + low, high - low} : Seq{};
    }
    CP_DEVICE bool has(const T& item) const { for (const T& each : *this) if (eq(each, item)) return true; return false; }
    CP_DEVICE Int index(const T& item) const { for (Int i = 0; i < n; ++i) if (eq(p[i], item)) return i; fail("an item that is not there"); }
    CP_DEVICE Int count(const T& item) const { Int found = 0; for (const T& each : *this) found += eq(each, item); return found; }
};

#ifdef CP_FOLLOWING
// Room behind sequences that were made lately. A tuple that grows by one element again and again is copied only when its room is
// used up: one longer sequence may take the room, and the shorter one does not see it.
struct Slack {
    const void* p;
    Int n, most;
    static constexpr size_t PLACES = 8;
    static Slack lately[PLACES];
    static Slack& of(const void* p) { return lately[(reinterpret_cast<uintptr_t>(p) >> 5) % PLACES]; }
    static void forget() { for (Slack& each : lately) each = {}; }
    bool taken(const void* begin, Int length, Int& room) {
        if (p != begin || n != length) return false;
        room = most;
        p = nullptr;
        return true;
    }
};
inline Slack Slack::lately[Slack::PLACES] = {};
#endif

template <class T> struct Builder {
    T* p = nullptr;
    Int n = 0, most = 0;
    CP_DEVICE CP_APART void grow(Int wanted) {
        Int next = most ? most * 2 : 4;
        while (next < wanted) next *= 2;
        T* moved = room<T>(next);
        if (n) copy_bytes(moved, p, n);
        p = moved;
        most = next;
    }
    CP_DEVICE CP_APART void add_grown(const T& item) { const T kept = item; grow(n + 1); p[n++] = kept; }
    CP_INLINE CP_DEVICE void add(const T& item) { if (n == most) add_grown(item); else p[n++] = item; }
    CP_DEVICE CP_APART void add_all(Seq<T> all) {
#ifdef CP_FOLLOWING
        if (!n && all.n && Slack::of(all.p).taken(all.p, all.n, most)) { p = const_cast<T*>(all.p); n = all.n; return; }
#endif
        if (n + all.n > most) grow(n + all.n);
        if (all.n) copy_bytes(p + n, all.p, all.n);
        n += all.n;
    }
    CP_DEVICE Seq<T> view() const { return {p, n}; }  // more may be added
    CP_DEVICE Seq<T> seq() const {  // and nothing is added any more
#ifdef CP_FOLLOWING
        if (n && n < most) Slack::of(p) = {p, n, most};
#endif
        return {p, n};
    }
};

template <class T> CP_DEVICE Seq<T> seq_of(std::initializer_list<T> all) {
    T* made = room<T>(Int(all.size()));
    copy_items(all.begin(), all.end(), made);
    return {made, Int(all.size())};
}
template <class T> CP_DEVICE CP_APART Seq<T> copied(Seq<T> all) {
    if (!all.n) return {};
    T* made = room<T>(all.n);
    copy_bytes(made, all.p, all.n);
    return {made, all.n};
}
template <class To, class From, class F> CP_DEVICE Seq<To> convert_seq(Seq<From> all, F each) {
    To* made = room<To>(all.n);
    for (Int i = 0; i < all.n; ++i) made[i] = each(all.p[i]);
    return {made, all.n};
}
template <class T> CP_DEVICE CP_APART Seq<T> joined(Seq<T> a, Seq<T> b) { Builder<T> made; made.add_all(a); made.add_all(b); return made.seq(); }
template <class T> CP_DEVICE CP_APART Seq<T> repeated(Seq<T> a, Int times) { Builder<T> made; for (Int i = 0; i < times; ++i) made.add_all(a); return made.seq(); }
template <class T> CP_DEVICE Seq<T> reversed(Seq<T> a) { T* made = room<T>(a.n); for (Int i = 0; i < a.n; ++i) made[i] = a.p[a.n - 1 - i]; return {made, a.n}; }
template <class T> CP_DEVICE Seq<T> stepped(Seq<T> a, Int step) {
    if (step < 0) { if (step != -1) fail("a slice by another step"); return reversed(a); }
    Builder<T> made; for (Int i = 0; i < a.n; i += step) made.add(a.p[i]); return made.seq();
}
inline CP_DEVICE CP_APART Seq<Int> range(Int low, Int high, Int step) { Builder<Int> made; for (Int i = low; step > 0 ? i < high : i > high; i += step) made.add(i); return made.seq(); }
inline CP_DEVICE Seq<Int> range(Int low, Int high) { return range(low, high, 1); }
inline CP_DEVICE Seq<Int> range(Int high) { return range(0, high, 1); }
template <class T> struct Before { CP_DEVICE bool operator()(const T& a, const T& b) const { return less(a, b); } };
template <class T> CP_DEVICE CP_APART Seq<T> sorted(Seq<T> a) { Seq<T> made = copied(a); order_stably(const_cast<T*>(made.p), const_cast<T*>(made.p) + made.n, Before<T>{}); return made; }
template <class T> CP_DEVICE CP_APART Seq<T> sorted_backwards(Seq<T> a) {
    Seq<T> made = copied(a);
    order_stably(const_cast<T*>(made.p), const_cast<T*>(made.p) + made.n, [](const T& x, const T& y) { return less(y, x); });
    return made;
}
template <class K, class T, class F> CP_DEVICE Seq<T> sorted_by(Seq<T> a, F key) {
    Seq<T> made = copied(a);
    order_stably(const_cast<T*>(made.p), const_cast<T*>(made.p) + made.n, [&](const T& x, const T& y) { return less(key(x), key(y)); });
    return made;
}
template <class T> CP_DEVICE T min_in(Seq<T> a) { T found = a.at(0); for (const T& each : a) if (less(each, found)) found = each; return found; }
template <class T> CP_DEVICE T max_in(Seq<T> a) { T found = a.at(0); for (const T& each : a) if (less(found, each)) found = each; return found; }
template <class K, class T, class F> CP_DEVICE T min_by(Seq<T> a, F key) { T found = a.at(0); for (const T& each : a) if (less(key(each), key(found))) found = each; return found; }
template <class K, class T, class F> CP_DEVICE T max_by(Seq<T> a, F key) { T found = a.at(0); for (const T& each : a) if (less(key(found), key(each))) found = each; return found; }
template <class P, class T> CP_DEVICE Seq<P> pairwise(Seq<T> a) { Builder<P> made; for (Int i = 0; i + 1 < a.n; ++i) made.add(P{a.p[i], a.p[i + 1]}); return made.seq(); }
template <class T> CP_DEVICE Seq<Seq<T>> transposed(Seq<Seq<T>> rows) {
    Builder<Seq<T>> made;
    if (!rows.n) return {};
    Int width = rows.p[0].n;
    for (const auto& row : rows) width = min_of<Int>(width, row.n);
    for (Int i = 0; i < width; ++i) { Builder<T> column; for (const auto& row : rows) column.add(row.p[i]); made.add(column.seq()); }
    return made.seq();
}
template <class T> CP_DEVICE CP_APART Seq<Seq<T>> product(Seq<T> a, Int times) {
    Builder<Seq<T>> made;
    made.add(Seq<T>{});
    for (Int i = 0; i < times; ++i) {
        Builder<Seq<T>> longer;
        for (const auto& row : made.seq()) for (const T& each : a) { Builder<T> next; next.add_all(row); next.add(each); longer.add(next.seq()); }
        made = longer;
    }
    return made.seq();
}
template <class T> CP_DEVICE CP_APART Seq<Seq<T>> combinations(Seq<T> a, Int count) {
    Builder<Seq<T>> made;
    Builder<Int> at;
    for (Int i = 0; i < count; ++i) at.add(i);
    if (count > a.n) return {};
    while (true) {
        Builder<T> row;
        for (Int i : at.seq()) row.add(a.p[i]);
        made.add(row.seq());
        Int i = count - 1;
        while (i >= 0 && at.p[i] == i + a.n - count) --i;
        if (i < 0) return made.seq();
        ++at.p[i];
        for (Int j = i + 1; j < count; ++j) at.p[j] = at.p[j - 1] + 1;
    }
}
inline CP_DEVICE Int least_common_multiple(Seq<Int> all) {
    Int found = 1;
    for (Int each : all) { Int a = found, b = each; while (b) { const Int c = a % b; a = b; b = c; } found = a ? times(found / a, each) : 0; }
    return found;
}
inline CP_DEVICE Seq<Int> little_endian(Int value, Int width) { Builder<Int> made; for (Int i = 0; i < width; ++i) { made.add(value & 255); value >>= 8; } return made.seq(); }

template <class T> CP_DEVICE bool eq(Opt<T> const& a, Opt<T> const& b) { return a.has == b.has && (!a.has || eq(a.value, b.value)); }
template <class T> CP_DEVICE bool less(Opt<T> const& a, Opt<T> const& b) { return a.has != b.has ? b.has : a.has && less(a.value, b.value); }
template <class T> CP_DEVICE Opt<T> copy(Opt<T> const& a) { return a.has ? Opt<T>{true, copy(a.value)} : a; }
template <class T> CP_DEVICE CP_APART bool eq(Seq<T> const& a, Seq<T> const& b) {
    if (a.n != b.n) return false;
    if (a.p == b.p) return true;
    for (Int i = 0; i < a.n; ++i) if (!eq(a.p[i], b.p[i])) return false;
    return true;
}
template <class T> CP_DEVICE CP_APART bool less(Seq<T> const& a, Seq<T> const& b) {
    for (Int i = 0; i < a.n && i < b.n; ++i) { if (less(a.p[i], b.p[i])) return true; if (less(b.p[i], a.p[i])) return false; }
    return a.n < b.n;
}
template <class T> CP_DEVICE CP_APART Seq<T> copy(Seq<T> const& a) { T* made = room<T>(a.n); for (Int i = 0; i < a.n; ++i) made[i] = copy(a.p[i]); return {made, a.n}; }

// Sets: sorted sequences without repetition ------------------------------------------------------------------------

template <class T> struct Set {
    const T* p = nullptr;
    Int n = 0;
    CP_DEVICE Int size() const { return n; }
    CP_DEVICE Seq<T> seq() const { return {p, n}; }
    CP_DEVICE const T* begin() const { return p; }
    CP_DEVICE const T* end() const { return p + n; }
    static CP_DEVICE CP_APART Set of(Seq<T> all) {
        Seq<T> made = sorted(all);
        Int kept = 0;
        T* q = const_cast<T*>(made.p);
        for (Int i = 0; i < made.n; ++i) if (!kept || less(q[kept - 1], q[i])) q[kept++] = q[i];
        return {q, kept};
    }
    CP_DEVICE bool has(const T& item) const { const T* at = first_from(p, p + n, item, Before<T>{}); return at != p + n && !less(item, *at); }
    CP_DEVICE Set with(const T& item) const { Builder<T> made; made.add_all(seq()); made.add(item); return of(made.seq()); }
};
template <class T> CP_DEVICE Set<T> set_of(std::initializer_list<T> all) { return Set<T>::of(seq_of<T>(all)); }
template <class T> CP_DEVICE bool eq(Set<T> const& a, Set<T> const& b) { return eq(a.seq(), b.seq()); }
template <class T> CP_DEVICE bool less(Set<T> const& a, Set<T> const& b) { return less(a.seq(), b.seq()); }
template <class T> CP_DEVICE Set<T> copy(Set<T> const& a) { const Seq<T> made = copy(a.seq()); return {made.p, made.n}; }
template <class T> CP_DEVICE Set<T> united(Set<T> a, Set<T> b) { return Set<T>::of(joined(a.seq(), b.seq())); }
template <class T> CP_DEVICE Set<T> shared(Set<T> a, Set<T> b) { Builder<T> made; for (const T& each : a) if (b.has(each)) made.add(each); return {made.p, made.n}; }
template <class T> CP_DEVICE Set<T> without(Set<T> a, Set<T> b) { Builder<T> made; for (const T& each : a) if (!b.has(each)) made.add(each); return {made.p, made.n}; }
template <class T> CP_DEVICE Set<T> either(Set<T> a, Set<T> b) { return united(without(a, b), without(b, a)); }
template <class T> CP_DEVICE bool is_subset(Set<T> a, Set<T> b) { for (const T& each : a) if (!b.has(each)) return false; return true; }
template <class To, class From, class F> CP_DEVICE Set<To> convert_set(Set<From> all, F each) { return Set<To>::of(convert_seq<To>(all.seq(), each)); }

// Lists and dictionaries: they are changed in place -----------------------------------------------------------------

template <class T> struct List {
    Builder<T>* of_ = nullptr;
    static CP_DEVICE List make() { auto* made = room<Builder<T>>(1); *made = Builder<T>{}; return {made}; }
    static CP_DEVICE List of(Seq<T> all) { List made = make(); made.of_->add_all(all); return made; }
    CP_DEVICE Int size() const { return of_ ? of_->n : 0; }
    CP_DEVICE Seq<T> seq() const { return of_ ? of_->view() : Seq<T>{}; }
    CP_DEVICE void add(const T& item) { of_->add(item); }
    CP_DEVICE CP_APART void add_all(Seq<T> all) { of_->add_all(copied(all)); }
    CP_DEVICE T& at(Int i) const { return const_cast<T&>(seq().at(i)); }
    CP_DEVICE bool has(const T& item) const { return seq().has(item); }
};
template <class T> CP_DEVICE bool eq(List<T> const& a, List<T> const& b) { return eq(a.seq(), b.seq()); }
template <class T> CP_DEVICE bool less(List<T> const& a, List<T> const& b) { return less(a.seq(), b.seq()); }
template <class T> CP_DEVICE List<T> copy(List<T> const& a) { return List<T>::of(copy(a.seq())); }
template <class To, class From, class F> CP_DEVICE List<To> convert_list(List<From> all, F each) { return List<To>::of(convert_seq<To>(all.seq(), each)); }

template <class K, class V> struct Pair { K key; V value; };

template <class K, class V> struct Dict {
    Builder<Pair<K, V>>* of_ = nullptr;
    bool counts = false;  // a Counter: what is not there is 0
    static CP_DEVICE Dict make() { auto* made = room<Builder<Pair<K, V>>>(1); *made = Builder<Pair<K, V>>{}; return {made}; }
    CP_DEVICE Int size() const { return of_ ? of_->n : 0; }
    CP_DEVICE Seq<Pair<K, V>> pairs() const { return of_ ? of_->view() : Seq<Pair<K, V>>{}; }
    CP_DEVICE Pair<K, V>* look(const K& key) const { if (of_) for (Int i = 0; i < of_->n; ++i) if (eq(of_->p[i].key, key)) return of_->p + i; return nullptr; }
    CP_DEVICE bool has(const K& key) const { return look(key) != nullptr; }
    CP_DEVICE Opt<V> find(const K& key) const { auto* at = look(key); return at ? Opt<V>{true, at->value} : Opt<V>{}; }
    CP_DEVICE V get(const K& key, const V& other) const { auto* at = look(key); return at ? at->value : other; }
    CP_DEVICE V at(const K& key) const { auto* at = look(key); if (at) return at->value; if (!counts) fail("a key that is not there"); return V{}; }
    CP_DEVICE void put(const K& key, const V& value) { auto* at = look(key); if (at) at->value = value; else of_->add({key, value}); }
    CP_DEVICE V set_default(const K& key, const V& value) { auto* at = look(key); if (at) return at->value; of_->add({key, value}); return value; }
    CP_DEVICE void put_all(Dict other) { for (const auto& each : other.pairs()) put(each.key, each.value); }
    CP_DEVICE void drop(const K& key) { auto* at = look(key); if (!at) return; for (auto* next = at + 1; next < of_->p + of_->n; ++next) next[-1] = *next; --of_->n; }
    CP_DEVICE Seq<K> keys() const { Builder<K> made; for (const auto& each : pairs()) made.add(each.key); return made.seq(); }
    CP_DEVICE Seq<V> values() const { Builder<V> made; for (const auto& each : pairs()) made.add(each.value); return made.seq(); }
    CP_DEVICE Dict copy() const { Dict made = make(); made.of_->add_all(pairs()); made.counts = counts; return made; }
    CP_DEVICE Dict counting() const { Dict made = copy(); made.counts = true; return made; }
};
template <class K, class V> CP_DEVICE bool eq(Dict<K, V> const& a, Dict<K, V> const& b) {
    if (a.size() != b.size()) return false;
    for (const auto& each : a.pairs()) { auto* other = b.look(each.key); if (!other || !eq(each.value, other->value)) return false; }
    return true;
}
template <class K, class V> CP_DEVICE Dict<K, V> copy(Dict<K, V> const& a) { Dict<K, V> made = Dict<K, V>::make(); for (const auto& each : a.pairs()) made.put(copy(each.key), copy(each.value)); return made; }
template <class K, class V, class T, class F, class G> CP_DEVICE Dict<K, V> dict_of(Seq<T> all, F key, G value) { auto made = Dict<K, V>::make(); for (const T& each : all) made.put(key(each), value(each)); return made; }
template <class K, class V> CP_DEVICE Dict<K, V> merged(Dict<K, V> a, Dict<K, V> b) { Dict<K, V> made = a.copy(); made.put_all(b); return made; }
template <class K, class V> CP_DEVICE Dict<K, V> positive(Dict<K, V> a) { auto made = Dict<K, V>::make(); for (const auto& each : a.pairs()) if (each.value > 0) made.put(each.key, each.value); return made; }
template <class K> CP_DEVICE Dict<K, Int> counted(Seq<K> all) { auto made = Dict<K, Int>::make(); for (const K& each : all) made.put(each, made.get(each, 0) + 1); return made.counting(); }
template <class K, class V> CP_DEVICE Dict<K, V> from_keys(Seq<K> all, V value) { auto made = Dict<K, V>::make(); for (const K& each : all) made.put(each, value); return made; }
template <class K, class V, class A, class B, class F, class G> CP_DEVICE Dict<K, V> convert_dict(Dict<A, B> all, F key, G value) { auto made = Dict<K, V>::make(); for (const auto& each : all.pairs()) made.put(key(each.key), value(each.value)); return made; }

#ifndef CP_FOLLOWING  // `versions.hpp` has those for large states
// Map and Queue of the specification ----------------------------------------------------------------------------------

template <class K, class V> struct Map {
    const Pair<K, V>* p = nullptr;
    Int n = 0;
    CP_DEVICE Int size() const { return n; }
    CP_DEVICE CP_APART Int place(const K& key) const { Int i = 0; while (i < n && less(p[i].key, key)) ++i; return i; }
    CP_DEVICE bool there(Int i, const K& key) const { return i < n && eq(p[i].key, key); }
    CP_DEVICE bool has(const K& key) const { return there(place(key), key); }
    CP_DEVICE V get(const K& key, const V& other) const { const Int i = place(key); return there(i, key) ? p[i].value : other; }
    CP_DEVICE CP_APART Map set(const K& key, const V& value) const {
        const Int i = place(key);
        const bool known = there(i, key);
        const Int size = n + (known ? 0 : 1);
        auto* made = room<Pair<K, V>>(size);
        copy_items(p, p + i, made);
        made[i] = {key, value};
        copy_items(p + i + (known ? 1 : 0), p + n, made + i + 1);
        return {made, size};
    }
    CP_DEVICE CP_APART Map remove(const K& key) const {
        const Int i = place(key);
        if (!there(i, key)) return *this;
        auto* made = room<Pair<K, V>>(n - 1);
        copy_items(p, p + i, made);
        copy_items(p + i + 1, p + n, made + i);
        return {made, n - 1};
    }
    CP_DEVICE Int total() const { if constexpr (std::is_same_v<V, Int>) { Int sum = 0; for (Int i = 0; i < n; ++i) sum = plus(sum, p[i].value); return sum; } else fail("a sum of what is no number"); }
};
template <class K, class V> CP_DEVICE CP_APART bool eq(Map<K, V> const& a, Map<K, V> const& b) {
    if (a.n != b.n) return false;
    if (a.p == b.p) return true;
    for (Int i = 0; i < a.n; ++i) if (!eq(a.p[i].key, b.p[i].key) || !eq(a.p[i].value, b.p[i].value)) return false;
    return true;
}
template <class K, class V> CP_DEVICE bool less(Pair<K, V> const& a, Pair<K, V> const& b) { return less(a.key, b.key) || (!less(b.key, a.key) && less(a.value, b.value)); }
template <class K, class V> CP_DEVICE CP_APART bool less(Map<K, V> const& a, Map<K, V> const& b) {
    for (Int i = 0; i < a.n && i < b.n; ++i) { if (less(a.p[i], b.p[i])) return true; if (less(b.p[i], a.p[i])) return false; }
    return a.n < b.n;
}
template <class K, class V> CP_DEVICE CP_APART Map<K, V> copy(Map<K, V> const& a) { auto* made = room<Pair<K, V>>(a.n); for (Int i = 0; i < a.n; ++i) made[i] = {copy(a.p[i].key), copy(a.p[i].value)}; return {made, a.n}; }
template <class K, class V, class T, class F, class G> CP_DEVICE Map<K, V> map_of(Seq<T> all, F key, G value) { Map<K, V> made; for (const T& each : all) made = made.set(key(each), value(each)); return made; }
template <class K, class V, class A, class B, class F, class G> CP_DEVICE Map<K, V> convert_map(Map<A, B> all, F key, G value) { Map<K, V> made; for (Int i = 0; i < all.n; ++i) made = made.set(key(all.p[i].key), value(all.p[i].value)); return made; }

template <class K> struct Waiting { K key; Int weight; };
template <class K> struct Queue {
    const Waiting<K>* p = nullptr;
    Int n = 0;
    CP_DEVICE Int size() const { return n; }
    CP_DEVICE Int find(const K& key) const { for (Int i = 0; i < n; ++i) if (eq(p[i].key, key)) return i; return -1; }
    CP_DEVICE bool has(const K& key) const { return find(key) >= 0; }
    CP_DEVICE Int weight(const K& key, Int other) const { const Int i = find(key); return i < 0 ? other : p[i].weight; }
    CP_DEVICE CP_APART Queue without(const K& key, bool front, bool back, Int weight) const {
        auto* made = room<Waiting<K>>(n + 1);
        Int count = 0;
        if (front) made[count++] = {key, weight};
        for (Int i = 0; i < n; ++i) if (!eq(p[i].key, key)) made[count++] = p[i];
        if (back) made[count++] = {key, weight};
        return {made, count};
    }
    CP_DEVICE Queue push(const K& key, Int weight) const { return without(key, false, true, weight); }
    CP_DEVICE Queue push_front(const K& key, Int weight) const { return without(key, true, false, weight); }
    CP_DEVICE Queue remove(const K& key) const { return without(key, false, false, 0); }
    CP_DEVICE K oldest(const K& other) const { return n ? p[0].key : other; }
    template <class M> CP_DEVICE K oldest_outside(const M& excluded, const K& other) const { for (Int i = 0; i < n; ++i) if (!excluded.has(p[i].key)) return p[i].key; return other; }
    CP_DEVICE Int total() const { Int sum = 0; for (Int i = 0; i < n; ++i) sum = plus(sum, p[i].weight); return sum; }
};
template <class K> CP_DEVICE CP_APART bool eq(Queue<K> const& a, Queue<K> const& b) {
    if (a.n != b.n) return false;
    if (a.p == b.p) return true;
    for (Int i = 0; i < a.n; ++i) if (!eq(a.p[i].key, b.p[i].key) || a.p[i].weight != b.p[i].weight) return false;
    return true;
}
template <class K> CP_DEVICE CP_APART bool less(Queue<K> const& a, Queue<K> const& b) {
    for (Int i = 0; i < a.n && i < b.n; ++i) {
        if (less(a.p[i].key, b.p[i].key)) return true;
        if (less(b.p[i].key, a.p[i].key)) return false;
        if (a.p[i].weight != b.p[i].weight) return a.p[i].weight < b.p[i].weight;
    }
    return a.n < b.n;
}
template <class K> CP_DEVICE CP_APART Queue<K> copy(Queue<K> const& a) { auto* made = room<Waiting<K>>(a.n); for (Int i = 0; i < a.n; ++i) made[i] = {copy(a.p[i].key), a.p[i].weight}; return {made, a.n}; }
template <class K, class T, class F, class G> CP_DEVICE Queue<K> queue_of(Seq<T> all, F key, G weight) { auto* made = room<Waiting<K>>(all.n); for (Int i = 0; i < all.n; ++i) made[i] = {key(all.p[i]), weight(all.p[i])}; return {made, all.n}; }
template <class To, class From, class F> CP_DEVICE Queue<To> convert_queue(Queue<From> all, F each) { auto* made = room<Waiting<To>>(all.n); for (Int i = 0; i < all.n; ++i) made[i] = {each(all.p[i].key), all.p[i].weight}; return {made, all.n}; }
template <class K, class V> CP_DEVICE Seq<Pair<K, V>> pairs_of(Map<K, V> const& a) { return {a.p, a.n}; }
template <class K> CP_DEVICE Seq<Waiting<K>> items_in(Queue<K> const& a) { return {a.p, a.n}; }
template <class K, class V> CP_DEVICE Map<K, V> map_from(Seq<Pair<K, V>> all) { return {all.p, all.n}; }
template <class K> CP_DEVICE Queue<K> queue_from(Seq<Waiting<K>> all) { return {all.p, all.n}; }
#endif

// Pairs of a container as tuples of the specification
#ifndef CP_FOLLOWING
template <class P, class K, class V> CP_DEVICE Seq<P> items_of(Map<K, V> const& a) { P* made = room<P>(a.n); for (Int i = 0; i < a.n; ++i) made[i] = P{a.p[i].key, a.p[i].value}; return {made, a.n}; }
#endif
template <class P, class K, class V> CP_DEVICE Seq<P> items_of(Dict<K, V> const& a) { P* made = room<P>(a.size()); Int i = 0; for (const auto& each : a.pairs()) made[i++] = P{each.key, each.value}; return {made, i}; }
#ifndef CP_FOLLOWING
template <class P, class K> CP_DEVICE Seq<P> items_of(Queue<K> const& a) { P* made = room<P>(a.n); for (Int i = 0; i < a.n; ++i) made[i] = P{a.p[i].key, a.p[i].weight}; return {made, a.n}; }
#endif

}  // namespace cp
#ifdef CP_FOLLOWING
#include "versions.hpp"
#endif
