// Memory, failures and algorithms of compiled code on a CPU; `device_memory.hpp` has those on a device.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

// Marks of functions that are compiled for a device too: there, and called rather than copied into their callers.
#define CP_DEVICE
#define CP_APART
#define CP_INLINE [[gnu::always_inline]]
#include "blake.hpp"

namespace cp {

using Int = int64_t;

struct Failure : std::runtime_error { using std::runtime_error::runtime_error; };
[[noreturn, gnu::noinline, gnu::cold]] inline void fail(const char* about) { throw Failure(about); }

// Memory ---------------------------------------------------------------------------------------------------------

struct Arena {  // a list of chunks; plain data, so that a thread finds its own without a test
    static constexpr size_t CHUNK = size_t(1) << 20;
    struct Chunk { Chunk* next; char* limit; char* begin() { return reinterpret_cast<char*>(this + 1); } };
    char *at = nullptr, *limit = nullptr;
    Chunk *first = nullptr, *chunk = nullptr;
    [[gnu::always_inline]] char* take(size_t bytes) {
        bytes = (bytes + 7) & ~size_t(7);
        if (size_t(limit - at) < bytes) return more(bytes);
        char* const taken = at;
        at += bytes;
        return taken;
    }
    [[gnu::noinline]] char* more(size_t bytes) {
        Chunk*& behind = chunk ? chunk->next : first;
        Chunk* next = behind;
        while (next && size_t(next->limit - next->begin()) < bytes) next = next->next;
        if (!next) {
            const size_t size = std::max(CHUNK, bytes);
            next = static_cast<Chunk*>(std::malloc(sizeof(Chunk) + size));
            if (!next) fail("no memory is left");
            *next = {behind, reinterpret_cast<char*>(next + 1) + size};
            behind = next;
        }
        enter(next);
        char* const taken = at;
        at += bytes;
        return taken;
    }
    void enter(Chunk* next) { chunk = next; at = next->begin(); limit = next->limit; }
    void clear() { if (first) enter(first); }
    void free() { while (first) { Chunk* next = first->next; std::free(first); first = next; } *this = Arena{}; }
};

// Each thread has its own: what a step makes, and what stays for as long as a search lasts; the configuration of the search,
// `root`; and what functions remember.
struct Context {
    Arena *arena, *lasting;
    const void* root = nullptr;
    std::vector<const void**> known = {};  // by function: lists of what it gave, newest first; null before the first call
};
static Arena main_passing, main_lasting;
static Context main_context{&main_passing, &main_lasting};
// A thread finds its context at a fixed distance, without a call. glibc keeps little room for that, so it is one pointer.
#ifdef CP_FOLLOWING  // one thread at a time calls such a library
static Context* context = &main_context;
#else
#if defined(__GLIBC__) && !defined(CP_FAR_CONTEXT)
[[gnu::tls_model("initial-exec")]]
#endif
static thread_local Context* context = &main_context;
#endif

struct Lasting {  // what is made while this lives stays
    Arena* before = context->arena;
    Lasting() { context->arena = context->lasting; }
    ~Lasting() { context->arena = before; }
};

template <class T> T* room(Int count) { return reinterpret_cast<T*>(context->arena->take(sizeof(T) * size_t(count))); }

// What a function remembers (`functools.cache`), for as long as a search lasts: lists for each thread, newest first. The
// numbers among the arguments say in which list a result is.
constexpr size_t KNOWN_LISTS = 512;
template <class... Ints> size_t list_of(Ints... numbers) {
    uint64_t mixed = 0;
    ((mixed = (mixed + uint64_t(numbers)) * 0x9e3779b97f4a7c15ull), ...);
    return size_t(mixed >> 40) % KNOWN_LISTS;
}
[[gnu::noinline, gnu::cold]] inline const void** new_lists(size_t number, size_t wanted) {
    if (context->known.size() <= number) context->known.resize(number + 1, nullptr);
    const Lasting here;
    const void** const made = room<const void*>(Int(wanted));
    std::fill(made, made + wanted, nullptr);
    return context->known[number] = made;
}
inline const void** lists_of(size_t number, size_t wanted) {
    const auto& known = context->known;
    return number < known.size() && known[number] ? known[number] : new_lists(number, wanted);
}
#define CP_KNOWN(number, lists_wanted, list) const Known*& known = reinterpret_cast<const Known**>(lists_of(number, lists_wanted))[list];
#define CP_KEEP(number) (made->next = known, known = made)
inline bool is_root(const void* config) { return config == context->root; }

// Algorithms and arithmetic --------------------------------------------------------------------------------------------

template <class T> T* copy_items(const T* first, const T* last, T* to) { return std::copy(first, last, to); }
template <class T> void copy_bytes(T* to, const T* from, Int count) { std::memcpy(static_cast<void*>(to), from, sizeof(T) * size_t(count)); }
template <class T> void clear_bytes(T& made) { std::memset(static_cast<void*>(&made), 0, sizeof made); }
template <class T, class Less> const T* first_from(const T* first, const T* last, const T& item, Less before) { return std::lower_bound(first, last, item, before); }
template <class T> void exchange(T& a, T& b) { std::swap(a, b); }
inline bool next_order(Int* first, Int* last) { return std::next_permutation(first, last); }
template <class T, class Less> void insert_each(T* first, T* last, Less before) {  // stable, and fast if they are few
    for (T* at = first + 1; at < last; ++at) {
        if (!before(*at, at[-1])) continue;
        const T moved = *at;
        T* to = at;
        do { *to = to[-1]; --to; } while (to > first && before(moved, to[-1]));
        *to = moved;
    }
}
constexpr int64_t FEW_ITEMS = 16;
template <class T, class Less> void order_freely(T* first, T* last, Less before) { if (last - first <= FEW_ITEMS) insert_each(first, last, before); else std::sort(first, last, before); }
template <class T, class Less> void order_stably(T* first, T* last, Less before) { if (last - first <= FEW_ITEMS) insert_each(first, last, before); else std::stable_sort(first, last, before); }
inline bool sum_overflows(Int a, Int b, Int& made) { return __builtin_add_overflow(a, b, &made); }
inline bool difference_overflows(Int a, Int b, Int& made) { return __builtin_sub_overflow(a, b, &made); }
inline bool product_overflows(Int a, Int b, Int& made) { return __builtin_mul_overflow(a, b, &made); }

// Bytes and texts ------------------------------------------------------------------------------------------------------

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

struct Written {  // a text that grows
    char *first = nullptr, *last = nullptr, *limit = nullptr;
    Written() = default;
    Written(const Written&) = delete;
    ~Written() { std::free(first); }
    size_t size() const { return size_t(last - first); }
    void clear() { last = first; }
    void need(size_t more) { if (size_t(limit - last) < more) grow(more); }
    [[gnu::noinline]] void grow(size_t more) {
        const size_t kept = size(), most = std::max<size_t>(1024, 2 * (kept + more));
        auto* moved = static_cast<char*>(std::realloc(first, most));
        if (!moved) fail("no memory is left");
        first = moved; last = moved + kept; limit = moved + most;
    }
    void operator+=(char letter) { need(1); *last++ = letter; }
    void operator+=(const char* text) { const size_t more = std::strlen(text); need(more); std::memcpy(last, text, more); last += more; }
    const char* c_str() { need(1); *last = 0; return first; }
    std::string str() const { return std::string(first, size()); }
};
inline void add_number(Written& out, Int a) {
    constexpr size_t MOST = 24;
    out.need(MOST);
    if (uint64_t(a) < 10) *out.last++ = char('0' + a);
    else out.last = std::to_chars(out.last, out.last + MOST, a).ptr;
}
inline uint64_t digest_of(const Written& text) {
    Blake made;
    for (size_t at = 0;;) {
        uint8_t block[Blake::BLOCK] = {0};
        const size_t part = std::min(Blake::BLOCK, text.size() - at);
        if (part) std::memcpy(block, text.first + at, part);
        at += part;
        made.add(block, at, at == text.size());
        if (at == text.size()) return made.number();
    }
}

}  // namespace cp
