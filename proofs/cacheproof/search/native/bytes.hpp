// Values as bytes and as JSON.
#pragma once
#include "runtime.hpp"

namespace cp {

// Bytes and JSON -------------------------------------------------------------------------------------------------------

// `bound` says how many bytes a value needs at most; `write` writes it where there is room, and says where it ends.
inline CP_DEVICE size_t bound(Int) { return Bytes::NUMBER; }
inline CP_DEVICE size_t bound(bool) { return 1; }
inline CP_DEVICE uint8_t* write(uint8_t* to, Int a) {
    uint64_t z = (uint64_t(a) << 1) ^ uint64_t(a >> 63);
    while (z >= 128) { *to++ = uint8_t(z | 128); z >>= 7; }
    *to++ = uint8_t(z);
    return to;
}
inline CP_DEVICE uint8_t* write(uint8_t* to, bool a) { *to++ = a; return to; }
template <class T> CP_DEVICE T take(const uint8_t*& in);
template <> inline CP_DEVICE CP_APART Int take<Int>(const uint8_t*& in) {
    uint64_t z = 0;
    for (int shift = 0;; shift += 7) { const uint8_t b = *in++; z |= uint64_t(b & 127) << shift; if (b < 128) break; }
    return Int(z >> 1) ^ -Int(z & 1);
}
template <> inline CP_DEVICE bool take<bool>(const uint8_t*& in) { return *in++ != 0; }
template <class T> struct Taken;
template <class T> struct Taken<Opt<T>> { static CP_DEVICE Opt<T> from(const uint8_t*& in) { if (!*in++) return {}; return {true, take<T>(in)}; } };
template <class T> struct Taken<Seq<T>> {
    static CP_DEVICE Seq<T> from(const uint8_t*& in) { const Int n = take<Int>(in); T* made = room<T>(n); for (Int i = 0; i < n; ++i) made[i] = take<T>(in); return {made, n}; }
};
template <class T> struct Taken<Set<T>> { static CP_DEVICE Set<T> from(const uint8_t*& in) { const auto all = Taken<Seq<T>>::from(in); return {all.p, all.n}; } };
template <class T> struct Taken<List<T>> { static CP_DEVICE List<T> from(const uint8_t*& in) { return List<T>::of(Taken<Seq<T>>::from(in)); } };
template <class K, class V> struct Taken<Map<K, V>> {
    static CP_DEVICE Map<K, V> from(const uint8_t*& in) {
        const Int n = take<Int>(in);
        auto* made = room<Pair<K, V>>(n);
        for (Int i = 0; i < n; ++i) { made[i].key = take<K>(in); made[i].value = take<V>(in); }
        return map_from(Seq<Pair<K, V>>{made, n});
    }
};
template <class K> struct Taken<Queue<K>> {
    static CP_DEVICE Queue<K> from(const uint8_t*& in) {
        const Int n = take<Int>(in);
        auto* made = room<Waiting<K>>(n);
        for (Int i = 0; i < n; ++i) { made[i].key = take<K>(in); made[i].weight = take<Int>(in); }
        return queue_from(Seq<Waiting<K>>{made, n});
    }
};
template <class T> CP_DEVICE T take(const uint8_t*& in) { return Taken<T>::from(in); }
template <class T> CP_DEVICE size_t bound(const Opt<T>& a);
template <class T> CP_DEVICE size_t bound(const Seq<T>& a);
template <class T> CP_DEVICE size_t bound(const Set<T>& a);
template <class T> CP_DEVICE size_t bound(const List<T>& a);
template <class K, class V> CP_DEVICE size_t bound(const Map<K, V>& a);
template <class K> CP_DEVICE size_t bound(const Queue<K>& a);
template <class T> CP_DEVICE uint8_t* write(uint8_t* to, const Opt<T>& a);
template <class T> CP_DEVICE uint8_t* write(uint8_t* to, const Seq<T>& a);
template <class T> CP_DEVICE uint8_t* write(uint8_t* to, const Set<T>& a);
template <class T> CP_DEVICE uint8_t* write(uint8_t* to, const List<T>& a);
template <class K, class V> CP_DEVICE uint8_t* write(uint8_t* to, const Map<K, V>& a);
template <class K> CP_DEVICE uint8_t* write(uint8_t* to, const Queue<K>& a);
template <class T> CP_DEVICE size_t bound(const Opt<T>& a) { return 1 + (a.has ? bound(a.value) : 0); }
template <class T> CP_DEVICE size_t bound(const Seq<T>& a) { size_t most = Bytes::NUMBER; for (const T& each : a) most += bound(each); return most; }
template <class T> CP_DEVICE size_t bound(const Set<T>& a) { return bound(a.seq()); }
template <class T> CP_DEVICE size_t bound(const List<T>& a) { return bound(a.seq()); }
template <class K, class V> CP_DEVICE size_t bound(const Map<K, V>& a) { size_t most = Bytes::NUMBER; for (const auto& each : pairs_of(a)) most += bound(each.key) + bound(each.value); return most; }
template <class K> CP_DEVICE size_t bound(const Queue<K>& a) { size_t most = Bytes::NUMBER; for (const auto& each : items_in(a)) most += bound(each.key) + Bytes::NUMBER; return most; }
template <class T> CP_DEVICE uint8_t* write(uint8_t* to, const Opt<T>& a) { to = write(to, a.has); return a.has ? write(to, a.value) : to; }
template <class T> CP_DEVICE uint8_t* write(uint8_t* to, const Seq<T>& a) { to = write(to, a.n); for (const T& each : a) to = write(to, each); return to; }
template <class T> CP_DEVICE uint8_t* write(uint8_t* to, const Set<T>& a) { return write(to, a.seq()); }
template <class T> CP_DEVICE uint8_t* write(uint8_t* to, const List<T>& a) { return write(to, a.seq()); }
template <class K, class V> CP_DEVICE uint8_t* write(uint8_t* to, const Map<K, V>& a) { to = write(to, a.n); for (const auto& each : pairs_of(a)) to = write(write(to, each.key), each.value); return to; }
template <class K> CP_DEVICE uint8_t* write(uint8_t* to, const Queue<K>& a) { to = write(to, a.n); for (const auto& each : items_in(a)) to = write(write(to, each.key), each.weight); return to; }
template <class T> CP_DEVICE void put(Bytes& out, const T& a) { out.need(bound(a)); out.last = write(out.last, a); }

inline CP_DEVICE void json(Written& out, Int a) { add_number(out, a); }
inline CP_DEVICE void json(Written& out, bool a) { out += a ? "true" : "false"; }
template <class T> CP_DEVICE void json(Written& out, const Opt<T>& a) { if (a.has) json(out, a.value); else out += "null"; }
template <class T> CP_DEVICE void json(Written& out, const Seq<T>& a) { out += '['; for (Int i = 0; i < a.n; ++i) { if (i) out += ','; json(out, a.p[i]); } out += ']'; }
template <class T> CP_DEVICE void json(Written& out, const List<T>& a) { json(out, a.seq()); }
template <class T> CP_DEVICE void json(Written& out, const Set<T>& a) { json(out, a.seq()); }
template <class K, class V> CP_DEVICE void json(Written& out, const Map<K, V>& map) {
    const auto a = pairs_of(map);
    out += '[';
    for (Int i = 0; i < a.n; ++i) { if (i) out += ','; out += '['; json(out, a.p[i].key); out += ','; json(out, a.p[i].value); out += ']'; }
    out += ']';
}
template <class K> CP_DEVICE void json(Written& out, const Queue<K>& queue) {
    const auto a = items_in(queue);
    out += '[';
    for (Int i = 0; i < a.n; ++i) { if (i) out += ','; out += '['; json(out, a.p[i].key); out += ','; json(out, a.p[i].weight); out += ']'; }
    out += ']';
}

}  // namespace cp
