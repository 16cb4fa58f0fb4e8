// The bytes of a state in fewer bits. Most bytes are small numbers: of a state on its way through memory, half are zeros.
#pragma once
#include "bytes.hpp"
#include <array>

namespace cp {

inline uint64_t word_at(const uint8_t* data) { uint64_t x; std::memcpy(&x, data, 8); return x; }

// A prefix code of bytes. The usual ones stand in groups: as many ones as the group's number, a zero, and which of the group it is.
// Five ones come before all eight bits of any other byte. Bits are written from the lowest one on.
namespace coding {

constexpr unsigned GROUPS = 5, OTHER = GROUPS + 8;
constexpr uint8_t SMALL = 15;
struct Group { unsigned extra; uint8_t bytes[4]; };
constexpr Group USUAL[GROUPS] = {{0, {0}}, {0, {2}}, {1, {4, 1}}, {1, {6, 8}}, {2, {10, 12, 14, 16}}};
struct Code { uint32_t bits = 0, size = 0; };
constexpr Code of(uint8_t byte) {
    for (unsigned group = 0; group < GROUPS; ++group)
        for (unsigned which = 0; which < 1u << USUAL[group].extra; ++which)
            if (USUAL[group].bytes[which] == byte) return {((1u << group) - 1) | which << (group + 1), group + 1 + USUAL[group].extra};
    return {((1u << GROUPS) - 1) | uint32_t(byte) << GROUPS, OTHER};
}
constexpr auto SINGLE = [] {
    std::array<Code, 256> made;
    for (unsigned byte = 0; byte < 256; ++byte) made[byte] = of(uint8_t(byte));
    return made;
}();
constexpr auto PAIR = [] {  // of two bytes below 16: the first one in the lower half
    std::array<Code, 256> made;
    for (unsigned two = 0; two < 256; ++two) {
        const Code first = of(two & SMALL), second = of(uint8_t(two >> 4));
        made[two] = {first.bits | second.bits << first.size, first.size + second.size};
    }
    return made;
}();

// What begins with these eight bits: as many whole bytes as there are, and their bits. None, if another byte begins.
struct Begun { uint64_t bytes = 0; uint32_t count = 0, size = 0; };
constexpr auto BEGUN = [] {
    std::array<Begun, 256> made;
    for (unsigned bits = 0; bits < 256; ++bits) {
        Begun& own = made[bits];
        for (bool whole = true; whole;) {
            whole = false;
            for (unsigned group = 0; group < GROUPS && !whole; ++group)
                for (unsigned which = 0; which < 1u << USUAL[group].extra && !whole; ++which) {
                    const uint8_t byte = USUAL[group].bytes[which];
                    const Code code = of(byte);
                    if (own.size + code.size > 8 || (bits >> own.size & ((1u << code.size) - 1)) != code.bits) continue;
                    own.bytes |= uint64_t(byte) << 8 * own.count++;
                    own.size += code.size;
                    whole = true;
                }
        }
    }
    return made;
}();

}  // namespace coding

// A row: how many words of eight bytes there are, then their bytes in this code. Zeros fill the last word; a state says where it ends.
struct Packing {
    static constexpr uint64_t HIGH = 0xf0f0f0f0f0f0f0f0ull;
    static constexpr size_t WORD = 8, BEHIND = 8;  // so many bytes may be read and written behind the end of a row
    static size_t words_of(size_t size) { return (size + WORD - 1) / WORD; }
    static size_t most(size_t size) { return Bytes::NUMBER + words_of(size) * coding::OTHER + 1 + BEHIND; }

    struct Bits {
        uint8_t* to;
        uint64_t held = 0;
        unsigned count = 0;  // below 8 after each `flush`; what two pairs or four bytes add comes to 52 at most
        void add(const coding::Code& code) { held |= uint64_t(code.bits) << count; count += code.size; }
        void flush() { std::memcpy(to, &held, sizeof held); to += count / 8; held >>= count & ~7u; count &= 7; }
    };
    static uint8_t* pack(const uint8_t* from, size_t size, uint8_t* to) {  // `WORD` bytes may be read behind the end: they are zeros
        const size_t words = words_of(size);
        Bits bits{write(to, Int(words))};
        for (size_t i = 0; i < words; ++i) {
            uint64_t x = word_at(from + i * WORD);
            if (x & HIGH) {
                for (int half = 0; half < 2; ++half, bits.flush()) for (int k = 0; k < 4; ++k, x >>= 8) bits.add(coding::SINGLE[x & 255]);
                continue;
            }
            x |= x >> 4;  // the two bytes of a pair, in one
            bits.add(coding::PAIR[x & 255]);
            bits.add(coding::PAIR[x >> 16 & 255]);
            bits.flush();
            bits.add(coding::PAIR[x >> 32 & 255]);
            bits.add(coding::PAIR[x >> 48 & 255]);
            bits.flush();
        }
        if (bits.count) *bits.to++ = uint8_t(bits.held);
        return bits.to;
    }
    static const uint8_t* unpack(const uint8_t* from) {  // in the arena
        const size_t size = size_t(take<Int>(from)) * WORD;
        auto* const made = room<uint8_t>(Int(size + WORD));
        for (size_t at = 0, bit = 0; at < size;) {
            uint64_t held = word_at(from + bit / 8) >> bit % 8;
            for (unsigned left = 64 - unsigned(bit % 8); left >= coding::OTHER && at < size;) {
                const coding::Begun& begun = coding::BEGUN[held & 255];
                const unsigned used = begun.count ? begun.size : coding::OTHER;
                const uint64_t bytes = begun.count ? begun.bytes : held >> coding::GROUPS & 255;
                std::memcpy(made + at, &bytes, sizeof bytes);
                at += begun.count ? begun.count : 1;
                held >>= used;
                left -= used;
                bit += used;
            }
        }
        return made;
    }
};
template <class T> void put_packed(Bytes& out, Bytes& plain, const T& a) {
    plain.clear();
    put(plain, a);
    plain.need(Packing::WORD);
    std::memset(plain.last, 0, Packing::WORD);
    out.need(Packing::most(plain.size()));
    out.last = Packing::pack(plain.data(), plain.size(), out.last);
}

}  // namespace cp
