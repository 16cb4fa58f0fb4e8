// Values as bytes and as JSON, and the digest of a text.
#pragma once
#include "runtime.hpp"
#include <charconv>

namespace cp {

// Bytes and JSON -------------------------------------------------------------------------------------------------------

struct Bytes {
    static constexpr size_t NUMBER = 10;  // the most bytes of one number
    uint8_t *first = nullptr, *last = nullptr, *limit = nullptr;
    Bytes() = default;
    Bytes(const Bytes&) = delete;
    ~Bytes() { std::free(first); }
    const uint8_t* data() const { return first; }
    size_t size() const { return size_t(last - first); }
    void clear() { last = first; }
    void need(size_t more) { if (size_t(limit - last) < more) grow(more); }
    [[gnu::noinline]] void grow(size_t more) {
        const size_t kept = size(), most = std::max<size_t>(256, 2 * (kept + more));
        auto* moved = static_cast<uint8_t*>(std::realloc(first, most));
        if (!moved) fail("no memory is left");
        first = moved; last = moved + kept; limit = moved + most;
    }
};

inline void put(Bytes& out, Int a) {
    uint64_t z = (uint64_t(a) << 1) ^ uint64_t(a >> 63);
    out.need(Bytes::NUMBER);
    while (z >= 128) { *out.last++ = uint8_t(z | 128); z >>= 7; }
    *out.last++ = uint8_t(z);
}
inline void put(Bytes& out, bool a) { out.need(1); *out.last++ = a; }
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
template <class T> void put(Bytes& out, const Opt<T>& a) { put(out, a.has); if (a.has) put(out, a.value); }
template <class T> void put(Bytes& out, const Seq<T>& a) { put(out, a.n); for (const T& each : a) put(out, each); }
template <class T> void put(Bytes& out, const Set<T>& a) { put(out, a.seq()); }
template <class T> void put(Bytes& out, const List<T>& a) { put(out, a.seq()); }
template <class K, class V> void put(Bytes& out, const Map<K, V>& a) { put(out, a.n); for (Int i = 0; i < a.n; ++i) { put(out, a.p[i].key); put(out, a.p[i].value); } }
template <class K> void put(Bytes& out, const Queue<K>& a) { put(out, a.n); for (Int i = 0; i < a.n; ++i) { put(out, a.p[i].key); put(out, a.p[i].weight); } }

inline void json(std::string& out, Int a) { char text[24]; out.append(text, size_t(std::to_chars(text, text + sizeof text, a).ptr - text)); }
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

}  // namespace cp
