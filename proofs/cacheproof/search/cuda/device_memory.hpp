// Memory, failures and algorithms of compiled code on a CUDA device; `memory.hpp` has those on a CPU.
//
// Each thread has a part of one large buffer, which it fills from the beginning and empties before the next state. What
// stays for as long as a search lasts is taken from another buffer, by all threads. Nothing is ever thrown: a thread that
// cannot go on notes why and ends, and the host ends the search.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __CUDACC__
#define CP_LAUNCH(kernel, blocks, threads, ...) kernel<<<blocks, threads>>>(__VA_ARGS__)
#define CP_APART __noinline__
#define CP_INLINE
__device__ [[noreturn]] inline void end_of_thread() { asm volatile("exit;"); __builtin_unreachable(); }
#else
#define CP_APART
#define CP_INLINE
#include "emulated.hpp"
#endif

#define CP_DEVICE __device__
#include "blake.hpp"

namespace cp {

using Int = int64_t;
using Word = unsigned long long;

constexpr unsigned THREADS = 128;  // of a block
constexpr size_t MOST_KEPT = 64;

struct Context {  // of the search, for all threads
    Word* fault = nullptr;  // the address of a text, 0 while nothing failed; the state; the stage and its move
    char* lasting = nullptr;
    Word lasting_bytes = 0;
    Word* lasting_used = nullptr;
    Word* kept = nullptr;  // the newest result of each function that remembers
    const void* root = nullptr;
    char* passing = nullptr;  // a part for each thread
    Word passing_bytes = 0;  // of a part
};
__constant__ Context now;

enum Stage { BEGINNING, READING, VIEWING, CONTINUING, OFFERING, STEPPING, JUDGING, FORMING, ENTERING, WRITING, STAGES };
struct Doing { Word state; unsigned stage, move; };  // what a thread does, for whoever reads why it ended
__shared__ Doing doings[THREADS];
inline CP_DEVICE void doing(Stage stage) { doings[threadIdx.x].stage = stage; }

[[noreturn]] inline CP_DEVICE void fail(const char* about) {
    if (!atomicCAS(now.fault, Word(0), Word(reinterpret_cast<uintptr_t>(about)))) {
        const Doing& own = doings[threadIdx.x];
        now.fault[1] = own.state;
        now.fault[2] = Word(own.stage) << 32 | own.move;
    }
    end_of_thread();
}
inline CP_DEVICE bool has_failed() { return __ldcg(now.fault) != 0; }

struct Arena {
    // What lasts begins with a line of the cache: a line that another thread writes was not read before.
    static constexpr size_t LINE = 128;
    char *at, *limit;  // both are null while what is taken is to last
    CP_DEVICE char* take(size_t bytes) {
        bytes = (bytes + 7) & ~size_t(7);
        if (size_t(limit - at) < bytes) return more(bytes);
        char* const taken = at;
        at += bytes;
        return taken;
    }
    CP_DEVICE CP_APART char* more(size_t bytes) {
        if (limit) fail("the memory of a thread is full");
        bytes = (bytes + LINE - 1) / LINE * LINE;
        const Word begin = atomicAdd(now.lasting_used, Word(bytes));
        if (begin + bytes > now.lasting_bytes) fail("the memory for what lasts is full");
        return now.lasting + begin;
    }
};
__shared__ Arena arenas[THREADS];
inline CP_DEVICE Arena& own_arena() { return arenas[threadIdx.x]; }
inline CP_DEVICE unsigned own_thread() { return blockIdx.x * THREADS + threadIdx.x; }
inline CP_DEVICE void empty_arena() {
    char* const begin = now.passing + Word(own_thread()) * now.passing_bytes;
    own_arena() = {begin, begin + now.passing_bytes};
}

struct Lasting {  // what is made while this lives stays
    Arena before;
    CP_DEVICE Lasting() : before(own_arena()) { own_arena() = {nullptr, nullptr}; }
    CP_DEVICE ~Lasting() { own_arena() = before; }
};

template <class T> CP_DEVICE T* room(Int count) { return reinterpret_cast<T*>(own_arena().take(sizeof(T) * size_t(count))); }

// What a function remembers (`functools.cache`): a list for all threads, newest first. Two threads may keep the same result.
template <class Known> CP_DEVICE const Known* newest(size_t number) { return reinterpret_cast<const Known*>(uintptr_t(__ldcg(now.kept + number))); }
template <class Known> CP_DEVICE void keep(size_t number, Known* made) {
    Word before = __ldcg(now.kept + number);
    while (true) {
        made->next = reinterpret_cast<const Known*>(uintptr_t(before));
        __threadfence();
        const Word found = atomicCAS(now.kept + number, before, Word(reinterpret_cast<uintptr_t>(made)));
        if (found == before) return;
        before = found;
    }
}
#define CP_KNOWN(number, lists_wanted, list) const Known* const known = newest<Known>(number);
#define CP_KEEP(number) keep<Known>(number, made)
inline CP_DEVICE bool is_root(const void* config) { return config == now.root; }

// Algorithms and arithmetic --------------------------------------------------------------------------------------------

// Nothing of the standard library: nvcc 13.0 takes its constexpr functions with an option, and then drops their memmove.
template <class T> CP_DEVICE T* copy_items(const T* first, const T* last, T* to) { while (first != last) *to++ = *first++; return to; }
template <class T> CP_DEVICE void copy_bytes(T* to, const T* from, Int count) { for (Int i = 0; i < count; ++i) to[i] = from[i]; }
template <class T> CP_DEVICE void clear_bytes(T& made) { auto* bytes = reinterpret_cast<unsigned char*>(&made); for (size_t i = 0; i < sizeof made; ++i) bytes[i] = 0; }
template <class T, class Less> CP_DEVICE const T* first_from(const T* first, const T* last, const T& item, Less before) {
    while (first != last && before(*first, item)) ++first;
    return first;
}
template <class T> CP_DEVICE void exchange(T& a, T& b) { const T kept = a; a = b; b = kept; }
inline CP_DEVICE bool next_order(Int* first, Int* last) {  // as std::next_permutation
    Int* i = last - 1;
    while (i > first && !(i[-1] < i[0])) --i;
    const bool is_last = i <= first;
    for (Int *a = is_last ? first : i, *b = last - 1; a < b; ++a, --b) exchange(*a, *b);
    if (is_last) return false;
    Int* j = i;
    while (!(i[-1] < *j)) ++j;
    exchange(i[-1], *j);
    return true;
}
// Sequences are short: a sort by insertion needs neither memory nor recursion.
template <class T, class Less> CP_DEVICE CP_APART void order_stably(T* first, T* last, Less before) {
    for (T* end = first; end < last; ++end) {
        const T own = *end;
        T* at = end;
        for (; at > first && before(own, at[-1]); --at) *at = at[-1];
        *at = own;
    }
}
template <class T, class Less> CP_DEVICE void order_freely(T* first, T* last, Less before) { order_stably(first, last, before); }
inline CP_DEVICE bool sum_overflows(Int a, Int b, Int& made) { made = Int(uint64_t(a) + uint64_t(b)); return ((a ^ made) & (b ^ made)) < 0; }
inline CP_DEVICE bool difference_overflows(Int a, Int b, Int& made) { made = Int(uint64_t(a) - uint64_t(b)); return ((a ^ b) & (a ^ made)) < 0; }
inline CP_DEVICE bool product_overflows(Int a, Int b, Int& made) {
    made = Int(uint64_t(a) * uint64_t(b));
    if (a == 0 || b == 0) return false;
    if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN)) return true;
    return made / b != a;
}

// Bytes and texts ------------------------------------------------------------------------------------------------------

struct Bytes {
    static constexpr size_t NUMBER = 10;  // the most bytes of one number
    static constexpr size_t LEAST = 256;
    uint8_t *first = nullptr, *last = nullptr, *limit = nullptr;
    CP_DEVICE const uint8_t* data() const { return first; }
    CP_DEVICE size_t size() const { return size_t(last - first); }
    CP_DEVICE void need(size_t more) { if (size_t(limit - last) < more) grow(more); }
    CP_DEVICE CP_APART void grow(size_t more) {
        const size_t kept = size(), most = 2 * (kept + more) > LEAST ? 2 * (kept + more) : LEAST;
        auto* moved = room<uint8_t>(Int(most));
        copy_bytes(moved, first, Int(kept));
        first = moved; last = moved + kept; limit = moved + most;
    }
};

struct Written {  // a text of which only the digest is wanted
    Blake digest;
    uint64_t size = 0;
    alignas(8) uint8_t block[Blake::BLOCK] = {0};
    CP_DEVICE CP_APART void operator+=(char letter) {
        const size_t at = size % Blake::BLOCK;
        if (!at && size) digest.add(block, size, false);
        block[at] = uint8_t(letter);
        ++size;
    }
    CP_DEVICE CP_APART void operator+=(const char* text) { while (*text) *this += *text++; }
    CP_DEVICE uint64_t number() {
        for (size_t at = size ? (size - 1) % Blake::BLOCK + 1 : 0; at < Blake::BLOCK; ++at) block[at] = 0;
        digest.add(block, size, true);
        return digest.number();
    }
};
inline CP_DEVICE CP_APART void add_number(Written& out, Int a) {
    char text[24];
    int at = 24;
    uint64_t rest = a < 0 ? 0 - uint64_t(a) : uint64_t(a);
    do { text[--at] = char('0' + rest % 10); rest /= 10; } while (rest);
    if (a < 0) text[--at] = '-';
    while (at < 24) out += text[at++];
}

}  // namespace cp
