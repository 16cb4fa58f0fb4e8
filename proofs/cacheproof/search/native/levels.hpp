// Levels of a search on disk, and back: what a checkpoint keeps, with the numbers and rows of this library.
//
// mark; states, owed steps, labels, whether something may be pending; for each state the first step to it; what is
// pending in each; each row behind its size; sources, moves, labels and targets of the steps; each label behind its size.
#pragma once
#include "explorer.hpp"
#include <cstdio>

namespace cp {

constexpr uint64_t LEVEL_MARK = 0x316c6576656c7063ull;  // "cplevel1"

struct LevelFile {
    std::FILE* file;
    LevelFile(const char* path, const char* mode) : file(std::fopen(path, mode)) { if (!file) fail("the file cannot be opened"); }
    LevelFile(const LevelFile&) = delete;
    ~LevelFile() { if (file) std::fclose(file); }
    void write(const void* data, size_t size) { if (size && std::fwrite(data, 1, size, file) != size) fail("the file cannot be written"); }
    void read(void* data, size_t size) { if (size && std::fread(data, 1, size, file) != size) fail("the file is too short"); }
    template <class T> void put(T value) { write(&value, sizeof value); }
    template <class T> T get() { T value; read(&value, sizeof value); return value; }
    template <class T> void put_from(const std::vector<T>& all, size_t first, size_t end) { write(all.data() + first, (end - first) * sizeof(T)); }
    template <class T> void get_more(std::vector<T>& all, size_t count) {
        const size_t before = all.size();
        all.resize(before + count);
        read(all.data() + before, count * sizeof(T));
    }
    void finish() {
        const bool whole = std::fclose(std::exchange(file, nullptr)) == 0;
        if (!whole) fail("the file cannot be written");
    }
};

inline void write_level(const Explorer& search, const char* path, size_t first_step, size_t first_label) {
    LevelFile file(path, "wb");
    const size_t first = search.level_begin, end = search.level_end, steps = search.owed_sources.size();
    for (const uint64_t number : {LEVEL_MARK, uint64_t(end - first), uint64_t(steps - first_step), uint64_t(search.labels.texts.size() - first_label), uint64_t(search.liveness)}) file.put(number);
    file.put_from(search.found_by, first, end);
    if (search.liveness) file.put_from(search.pending, first, end);
    for (size_t place = first; place < end; ++place) {
        const Row row = search.known.row(place);
        file.put(row.size);
        file.write(row.data, row.size);
    }
    file.put_from(search.owed_sources, first_step, steps);
    file.put_from(search.owed_moves, first_step, steps);
    file.put_from(search.owed_labels, first_step, steps);
    file.put_from(search.owed_targets, first_step, steps);
    for (size_t label = first_label; label < search.labels.texts.size(); ++label) {
        const std::string& text = search.labels.texts[label];
        file.put(uint64_t(text.size()));
        file.write(text.data(), text.size());
    }
    file.finish();
}

inline void read_level(Explorer& search, const char* path) {
    LevelFile file(path, "rb");
    if (file.get<uint64_t>() != LEVEL_MARK) fail("the file is of another kind");
    const auto states = file.get<uint64_t>(), steps = file.get<uint64_t>(), labels = file.get<uint64_t>();
    if (file.get<uint64_t>() != uint64_t(search.liveness)) fail("the file is of another plan");
    file.get_more(search.found_by, states);
    if (search.liveness) file.get_more(search.pending, states);
    std::vector<uint8_t> row;
    Written text;
    for (uint64_t read = 0; read < states; ++read) {
        const auto size = file.get<uint32_t>();
        if (size > Known::CHUNK) fail("a state that is too large");
        row.resize(size);
        file.read(row.data(), size);
        const size_t place = search.known.add({row.data(), size}, hashed(row.data(), size));
        text.clear();
        json(text, search.state_at(place));
        search.tally.digest += digest_of(text);
        context->arena->clear();
    }
    file.get_more(search.owed_sources, steps);
    file.get_more(search.owed_moves, steps);
    file.get_more(search.owed_labels, steps);
    file.get_more(search.owed_targets, steps);
    for (uint64_t read = 0; read < labels; ++read) {
        std::string label(file.get<uint64_t>(), '\0');
        file.read(label.data(), label.size());
        search.labels.of(label);
    }
    search.level_begin = search.expanded = search.level_end;
    search.level_end = search.known.size();
}

}  // namespace cp

extern "C" {
int cp_write_level(Explorer* search, const char* path, uint64_t first_step, uint64_t first_label) {
    return cp::guarded(search, [&] { cp::write_level(*search, path, first_step, first_label); });
}
int cp_read_level(Explorer* search, const char* path) { return cp::guarded(search, [&] { cp::read_level(*search, path); }); }
// A witness that was reached before: of a safety property (0), of a step (1) or of progress (2).
void cp_know(Explorer* search, int what, int rule) {
    auto& tally = search->tally;
    (what == 0 ? tally.seen_safety : what == 1 ? tally.seen_step : tally.seen_progress)[size_t(rule)] = 1;
}
}
