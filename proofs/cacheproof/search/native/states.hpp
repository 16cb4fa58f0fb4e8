// The set of known states, and what a thread remembers of the steps that it did lately.
#pragma once
#include "bytes.hpp"
#include <vector>
#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace cp {

inline uint64_t word_at(const uint8_t* data) { uint64_t x; std::memcpy(&x, data, 8); return x; }
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

// A row is kept packed, in words of eight bytes: four bytes hold those of which no byte is above 15, as most are. The number of
// words comes first, then a bit for each that says whether it is packed. Zeros fill the last word; a state says where it ends.
struct Packing {
    static constexpr uint64_t HIGH = 0xf0f0f0f0f0f0f0f0ull;
    static constexpr size_t WORD = 8;
    static size_t words_of(size_t size) { return (size + WORD - 1) / WORD; }
    static size_t most(size_t size) { return Bytes::NUMBER + words_of(words_of(size)) + words_of(size) * WORD; }
    static uint8_t* pack(const uint8_t* from, size_t size, uint8_t* to) {  // `WORD` bytes may be read behind the end: they are zeros
        const size_t words = words_of(size);
        to = write(to, Int(words));
        uint8_t* const marks = to;
        to += words_of(words);
        std::memset(marks, 0, size_t(to - marks));
        for (size_t i = 0; i < words; ++i) {
            uint64_t x = word_at(from + i * WORD);
            if (x & HIGH) { std::memcpy(to, &x, WORD); to += WORD; continue; }
            marks[i / WORD] |= uint8_t(1 << i % WORD);
            x = (x | x >> 4) & 0x00ff00ff00ff00ffull;
            x = (x | x >> 8) & 0x0000ffff0000ffffull;
            const auto half = uint32_t(x | x >> 16);
            std::memcpy(to, &half, sizeof half);
            to += sizeof half;
        }
        return to;
    }
    static const uint8_t* unpack(const uint8_t* from) {  // in the arena
        const auto words = size_t(take<Int>(from));
        const uint8_t* const marks = from;
        from += words_of(words);
        auto* const made = room<uint8_t>(Int(words * WORD));
        for (size_t i = 0; i < words; ++i) {
            uint64_t x = 0;
            if (marks[i / WORD] >> i % WORD & 1) {
                std::memcpy(&x, from, WORD / 2);
                from += WORD / 2;
                x = (x | x << 16) & 0x0000ffff0000ffffull;
                x = (x | x << 8) & 0x00ff00ff00ff00ffull;
                x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
            } else {
                std::memcpy(&x, from, WORD);
                from += WORD;
            }
            std::memcpy(made + i * WORD, &x, WORD);
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
    // What a look-up is about to read, step by step, so that it waits for several rows at once.
    void fetch_cell(uint64_t hash) const { __builtin_prefetch(&table.cells[hash >> table.shift]); }
    size_t fetch_place(uint64_t hash) const { const size_t found = table.find(hash, [](size_t) { return true; }); if (found != SIZE_MAX) __builtin_prefetch(&rows[found]); return found; }
    void fetch_row(size_t number) const { if (number != SIZE_MAX) { __builtin_prefetch(rows[number]); __builtin_prefetch(rows[number] + 64); } }
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
