// The set of known states, and what a thread remembers of the steps that it did lately.
#pragma once
#include "packing.hpp"
#include <vector>
#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace cp {

inline uint64_t multiplied(uint64_t a, uint64_t b) { const auto made = (unsigned __int128)a * b; return uint64_t(made) ^ uint64_t(made >> 64); }
inline uint64_t hashed(const uint8_t* data, size_t size) {  // sixteen bytes at a time; the last ones overlap those before
    constexpr uint64_t A = 0x9e3779b97f4a7c15ull, B = 0xe7037ed1a0b428dbull;
    uint64_t h = A ^ size;
    if (size >= 16) {
        const uint8_t* const last = data + size - 16;
        for (; data < last; data += 16) h = multiplied(word_at(data) ^ B, word_at(data + 8) ^ h);
        h = multiplied(word_at(last) ^ B, word_at(last + 8) ^ h);
    } else {
        uint8_t rest[16] = {0};
        for (size_t i = 0; i < size; ++i) rest[i] = data[i];
        h = multiplied(word_at(rest) ^ B, word_at(rest + 8) ^ h);
    }
    return multiplied(h ^ A, B);
}

// Memory that is read here and there: on large pages, where the system has them, an access needs no walk through page tables.
inline void* zeroed(size_t bytes) {
    constexpr size_t PAGE = size_t(1) << 21;
    if (bytes < PAGE / 2) {
        void* made = std::calloc(1, bytes);
        if (!made) fail("no memory is left");
        return made;
    }
    void* made = std::aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    if (!made) fail("no memory is left");
#ifdef MADV_HUGEPAGE
    madvise(made, bytes, MADV_HUGEPAGE);
#endif
    std::memset(made, 0, bytes);
    return made;
}

struct Row { const uint8_t* data; uint32_t size; };
inline bool same_bytes(const uint8_t* a, const uint8_t* b, size_t size) {
    if (size < 16) return std::memcmp(a, b, size) == 0;
    for (size_t i = 0; i < size - 16; i += 16) if ((word_at(a + i) ^ word_at(b + i)) | (word_at(a + i + 8) ^ word_at(b + i + 8))) return false;
    return !((word_at(a + size - 16) ^ word_at(b + size - 16)) | (word_at(a + size - 8) ^ word_at(b + size - 8)));
}
inline bool same(const Row& a, const Row& b) { return a.size == b.size && same_bytes(a.data, b.data, a.size); }

// An open table from hashes to numbers; the caller compares the rows, so that equal hashes are not taken for equal states.
struct Table {
    static constexpr size_t LEAST = size_t(1) << 10;
    std::vector<uint64_t> cells = std::vector<uint64_t>(LEAST, 0);  // number + 1, and the low half of the hash
    size_t used = 0;
    int shift = 64 - 10;
    template <class Same> size_t find(uint64_t hash, Same&& is_same) const {
        for (size_t at = hash >> shift;; at = (at + 1) & (cells.size() - 1)) {
            const uint64_t cell = cells[at];
            if (!cell) return SIZE_MAX;
            if (uint32_t(cell) == uint32_t(hash) && is_same((cell >> 32) - 1)) return (cell >> 32) - 1;
        }
    }
    void set(uint64_t hash, size_t number) {
        size_t at = hash >> shift;
        while (cells[at]) at = (at + 1) & (cells.size() - 1);
        cells[at] = uint64_t(number + 1) << 32 | uint32_t(hash);
        ++used;
    }
    size_t cell_of(uint64_t hash, size_t number) const {
        size_t at = hash >> shift;
        while ((cells[at] >> 32) - 1 != number) at = (at + 1) & (cells.size() - 1);
        return at;
    }
    bool is_full() const { return used * 8 >= cells.size() * 7; }
    void empty(size_t size) { cells.assign(size, 0); used = 0; shift = 64 - __builtin_ctzll(size); }
};

struct Known {  // every state that was found, by its number, as bytes; while threads look in it, nothing is added
    static constexpr size_t CHUNK = size_t(1) << 20, MOST = UINT32_MAX - 1, FRONT = 5;
    static constexpr uint8_t LONG = 255;  // the size does not fit into a byte, and four bytes with it follow
    std::vector<uint8_t*> chunks;
    size_t used = CHUNK;
    std::vector<const uint8_t*> rows;  // the size, then the state
    Table table;
    Known() = default;
    Known(const Known&) = delete;
    ~Known() { for (auto* each : chunks) std::free(each); }
    size_t size() const { return rows.size(); }
    size_t bytes() const { return chunks.size() * CHUNK + rows.size() * sizeof rows[0] + table.cells.size() * sizeof table.cells[0]; }
    Row row(size_t number) const {
        const uint8_t* in = rows[number];
        uint32_t size = *in++;
        if (size == LONG) { std::memcpy(&size, in, sizeof size); in += sizeof size; }
        return {in, size};
    }
    // What a look-up is about to read, step by step, so that it waits for several rows at once.
    void fetch_cell(uint64_t hash) const { __builtin_prefetch(&table.cells[hash >> table.shift]); }
    size_t fetch_place(uint64_t hash) const { const size_t found = table.find(hash, [](size_t) { return true; }); if (found != SIZE_MAX) __builtin_prefetch(&rows[found]); return found; }
    void fetch_row(size_t number) const { if (number != SIZE_MAX) { __builtin_prefetch(rows[number]); __builtin_prefetch(rows[number] + 64); } }
    size_t find(const Row& wanted, uint64_t hash) const { return table.find(hash, [&](size_t number) { return same(row(number), wanted); }); }
    size_t add(const Row& added, uint64_t hash) {  // its number
        const size_t size = added.size + (added.size < LONG ? 1 : FRONT);
        if (rows.size() >= MOST) fail("more states than can be numbered");
        if (size > CHUNK) fail("a state that is too large");
        if (used + size > CHUNK) {
            chunks.push_back(static_cast<uint8_t*>(std::malloc(CHUNK + Packing::BEHIND)));
            if (!chunks.back()) fail("no memory is left");
            used = 0;
        }
        uint8_t* const own = chunks.back() + used;
        const bool is_long = added.size >= LONG;
        *own = is_long ? LONG : uint8_t(added.size);
        if (is_long) std::memcpy(own + 1, &added.size, sizeof added.size);
        std::memcpy(own + size - added.size, added.data, added.size);
        used += size;
        rows.push_back(own);
        if (table.is_full()) grow();
        else table.set(hash, rows.size() - 1);
        return rows.size() - 1;
    }
    void rearrange(size_t first, const std::vector<size_t>& order) {  // of the numbers from `first` on, which is to come first, and so on
        std::vector<size_t> cells;
        std::vector<const uint8_t*> moved;
        for (const size_t number : order) {
            const Row own = row(number);
            cells.push_back(table.cell_of(hashed(own.data, own.size), number));
            moved.push_back(rows[number]);
        }
        for (size_t i = 0; i < order.size(); ++i) {
            rows[first + i] = moved[i];
            table.cells[cells[i]] = uint64_t(first + i + 1) << 32 | uint32_t(table.cells[cells[i]]);
        }
    }
    void grow() {
        table.empty(table.cells.size() * 2);
        for (size_t number = 0; number < rows.size(); ++number) { const Row own = row(number); table.set(hashed(own.data, own.size), number); }
    }
};

// What steps have led to lately: the row of a state as it came out, and what stands for its canonical form. It forgets
// everything when it is full. A canonical form is dear if names are exchanged, and then it remembers more. It begins small.
struct Remembered {
    static constexpr size_t MANY = 18, FEW = 14, FIRST = 10, BYTES_EACH = 128;
    struct Entry { uint64_t hash; uint32_t begin, size; uint64_t target; };
    size_t bits = FIRST, most = 0, kept = 0;
    Entry* entries = nullptr;
    Bytes rows;
    Remembered() = default;
    void make(bool many) { if (entries) return; most = many ? MANY : FEW; entries = static_cast<Entry*>(zeroed(sizeof(Entry) << bits)); }
    void widen() {  // when it is half full; entries move, so this comes between two states
        if (kept * 2 < size_t(1) << bits || bits == most) return;
        Entry* const before = entries;
        const size_t count = size_t(1) << bits;
        bits = std::min(bits + 2, most);
        entries = static_cast<Entry*>(zeroed(sizeof(Entry) << bits));
        for (size_t i = 0; i < count; ++i) if (before[i].size) at(before[i].hash) = before[i];
        std::free(before);
    }
    Remembered(const Remembered&) = delete;
    ~Remembered() { std::free(entries); }
    void forget() { if (!rows.size()) return; std::memset(static_cast<void*>(entries), 0, sizeof(Entry) << bits); rows.clear(); kept = 0; }
    Entry& at(uint64_t hash) { return entries[hash >> (64 - bits)]; }
    const uint8_t* row(const Entry& entry) const { return rows.data() + entry.begin; }
    bool holds(const Entry& entry, const Row& wanted, uint64_t hash) const { return entry.size && entry.hash == hash && same({row(entry), entry.size}, wanted); }
    void keep(Entry& entry, const Row& row, uint64_t hash, uint64_t target) {
        if (rows.size() + row.size > BYTES_EACH << most) forget();
        ++kept;
        entry = {hash, uint32_t(rows.size()), row.size, target};
        rows.need(row.size);
        std::memcpy(rows.last, row.data, row.size);
        rows.last += row.size;
    }
};

}  // namespace cp
