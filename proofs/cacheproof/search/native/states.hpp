// The set of known states, and what a thread remembers of the steps that it did lately.
#pragma once
#include "bytes.hpp"
#include <vector>

namespace cp {

inline uint64_t hashed(const uint8_t* data, size_t size) {
    uint64_t h = 0x9e3779b97f4a7c15ull ^ size;
    while (size >= 8) { uint64_t x; std::memcpy(&x, data, 8); h = (h ^ x) * 0xff51afd7ed558ccdull; h ^= h >> 32; data += 8; size -= 8; }
    uint64_t x = 0;
    std::memcpy(&x, data, size);
    h = (h ^ x) * 0xc4ceb9fe1a85ec53ull;
    return h ^ (h >> 29);
}

struct Row { const uint8_t* data; uint32_t size; };
inline bool same(const Row& a, const Row& b) { return a.size == b.size && std::memcmp(a.data, b.data, a.size) == 0; }

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
    bool is_full() const { return used * 4 >= cells.size() * 3; }
    void empty(size_t size) { cells.assign(size, 0); used = 0; shift = 64 - __builtin_ctzll(size); }
};

struct Known {  // every state that was found, by its number, as bytes; while threads look in it, nothing is added
    static constexpr size_t CHUNK = size_t(1) << 20, MOST = UINT32_MAX - 1;
    std::vector<uint8_t*> chunks;
    size_t used = CHUNK;
    std::vector<const uint8_t*> rows;  // four bytes of size, then the state
    Table table;
    Known() = default;
    Known(const Known&) = delete;
    ~Known() { for (auto* each : chunks) std::free(each); }
    size_t size() const { return rows.size(); }
    size_t bytes() const { return chunks.size() * CHUNK + rows.size() * sizeof rows[0] + table.cells.size() * sizeof table.cells[0]; }
    Row row(size_t number) const { Row found; std::memcpy(&found.size, rows[number], 4); found.data = rows[number] + 4; return found; }
    size_t find(const Row& wanted, uint64_t hash) const { return table.find(hash, [&](size_t number) { return same(row(number), wanted); }); }
    size_t add(const Row& added, uint64_t hash) {  // its number
        const size_t size = added.size + 4;
        if (rows.size() >= MOST) fail("more states than can be numbered");
        if (size > CHUNK) fail("a state that is too large");
        if (used + size > CHUNK) {
            chunks.push_back(static_cast<uint8_t*>(std::malloc(CHUNK)));
            if (!chunks.back()) fail("no memory is left");
            used = 0;
        }
        uint8_t* own = chunks.back() + used;
        std::memcpy(own, &added.size, 4);
        std::memcpy(own + 4, added.data, added.size);
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
// everything when it is full.
struct Remembered {
    static constexpr size_t ENTRIES = size_t(1) << 18, MOST_BYTES = size_t(1) << 25;
    struct Entry { uint64_t hash; uint32_t begin, size; uint64_t target; };
    Entry* entries = static_cast<Entry*>(std::calloc(ENTRIES, sizeof(Entry)));
    Bytes rows;
    Remembered() { if (!entries) fail("no memory is left"); }
    Remembered(const Remembered&) = delete;
    ~Remembered() { std::free(entries); }
    void forget() { if (!rows.size()) return; std::memset(static_cast<void*>(entries), 0, ENTRIES * sizeof(Entry)); rows.clear(); }
    Entry& at(uint64_t hash) { return entries[hash >> 46]; }
    bool holds(const Entry& entry, const Row& row, uint64_t hash) const { return entry.size && entry.hash == hash && same({rows.data() + entry.begin, entry.size}, row); }
    void keep(Entry& entry, const Row& row, uint64_t hash, uint64_t target) {
        if (rows.size() + row.size > MOST_BYTES) forget();
        entry = {hash, uint32_t(rows.size()), row.size, target};
        rows.need(row.size);
        std::memcpy(rows.last, row.data, row.size);
        rows.last += row.size;
    }
};

}  // namespace cp
