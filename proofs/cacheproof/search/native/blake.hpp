// BLAKE2b with eight bytes (RFC 7693), block by block. Who includes this has defined CP_DEVICE.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cp {

struct Blake {
    static constexpr size_t BLOCK = 128;
    uint64_t h[8] = {0x6a09e667f3bcc908 ^ 0x01010000 ^ 8, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
    static CP_DEVICE uint64_t turn(uint64_t x, int n) { return (x >> n) | (x << (64 - n)); }
    static CP_DEVICE void mix(uint64_t& a, uint64_t& b, uint64_t& c, uint64_t& d, uint64_t x, uint64_t y) {
        a += b + x; d = turn(d ^ a, 32); c += d; b = turn(b ^ c, 24);
        a += b + y; d = turn(d ^ a, 16); c += d; b = turn(b ^ c, 63);
    }
    // `end` is how many bytes there are up to the end of this block, which is filled up with zeros if it is the last.
    CP_DEVICE CP_APART void add(const uint8_t* block, uint64_t end, bool is_last) {
        constexpr uint64_t IV[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
        static constexpr uint8_t S[12][16] = {
            {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
            {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
            {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
            {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
            {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
            {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};
        uint64_t m[16];
        for (int i = 0; i < 16; ++i) {
            m[i] = 0;
            for (int j = 7; j >= 0; --j) m[i] = m[i] << 8 | block[8 * i + j];
        }
#ifndef CP_ON_DEVICE
        // Four columns, and then four diagonals, at once.
        typedef uint64_t Four __attribute__((vector_size(32)));
        Four a{h[0], h[1], h[2], h[3]}, b{h[4], h[5], h[6], h[7]}, c{IV[0], IV[1], IV[2], IV[3]};
        Four d{IV[4] ^ end, IV[5], is_last ? ~IV[6] : IV[6], IV[7]};
        const auto turned = [](Four x, int n) { return (x >> n) | (x << (64 - n)); };
        const auto mixed = [&](Four x, Four y) {
            a += b + x; d = turned(d ^ a, 32); c += d; b = turned(b ^ c, 24);
            a += b + y; d = turned(d ^ a, 16); c += d; b = turned(b ^ c, 63);
        };
#pragma GCC unroll 12
        for (int round = 0; round < 12; ++round) {
            const auto& s = S[round];
            mixed(Four{m[s[0]], m[s[2]], m[s[4]], m[s[6]]}, Four{m[s[1]], m[s[3]], m[s[5]], m[s[7]]});
            b = __builtin_shufflevector(b, b, 1, 2, 3, 0); c = __builtin_shufflevector(c, c, 2, 3, 0, 1); d = __builtin_shufflevector(d, d, 3, 0, 1, 2);
            mixed(Four{m[s[8]], m[s[10]], m[s[12]], m[s[14]]}, Four{m[s[9]], m[s[11]], m[s[13]], m[s[15]]});
            b = __builtin_shufflevector(b, b, 3, 0, 1, 2); c = __builtin_shufflevector(c, c, 2, 3, 0, 1); d = __builtin_shufflevector(d, d, 1, 2, 3, 0);
        }
        for (int i = 0; i < 4; ++i) { h[i] ^= a[i] ^ c[i]; h[i + 4] ^= b[i] ^ d[i]; }
#else
        uint64_t v[16];
        for (int i = 0; i < 8; ++i) { v[i] = h[i]; v[i + 8] = IV[i]; }
        v[12] ^= end;
        if (is_last) v[14] = ~v[14];
        for (const auto& s : S) {
            mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]); mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
            mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]); mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
            mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]); mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
            mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]); mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
        }
        for (int i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[i + 8];
#endif
    }
    CP_DEVICE uint64_t number() const {  // the first eight bytes, the most significant first
        uint64_t made = 0;
        for (int i = 0; i < 8; ++i) made = made << 8 | (h[0] >> (8 * i) & 255);
        return made;
    }
};

}  // namespace cp
