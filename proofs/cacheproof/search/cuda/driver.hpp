// The host's part: memory on the device, kernels level by level, and what Python asks.
#pragma once
#include "kernels.hpp"
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace cp {

struct Refused { std::string about; };

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

inline void checked(cudaError_t error, const char* doing) {
    if (error != cudaSuccess) throw Refused{std::string(doing) + ": " + cudaGetErrorString(error)};
}

template <class T> struct Memory {  // of the device
    T* at = nullptr;
    size_t count = 0;
    Memory() = default;
    Memory(const Memory&) = delete;
    ~Memory() { free(); }
    static inline bool is_lost = false;  // a kernel has not ended, so that the device would never give memory back
    void free() { if (at && !is_lost) cudaFree(at); at = nullptr; count = 0; }
    void make(size_t wanted) {
        free();
        void* made = nullptr;
        checked(cudaMalloc(&made, std::max<size_t>(1, wanted) * sizeof(T)), "memory of the device");
        at = static_cast<T*>(made);
        count = wanted;
    }
    void make_empty(size_t wanted) { make(wanted); empty(); }
    void empty() { checked(cudaMemset(at, 0, std::max<size_t>(1, count) * sizeof(T)), "to empty memory"); }
    void put(const T* from, size_t wanted) { make(wanted); if (wanted) checked(cudaMemcpy(at, from, wanted * sizeof(T), cudaMemcpyHostToDevice), "to copy to the device"); }
    void get(T* to, size_t first, size_t wanted) const { checked(cudaMemcpy(to, at + first, wanted * sizeof(T), cudaMemcpyDeviceToHost), "to copy from the device"); }
};

struct Sizes { Word bytes, thread_bytes, lasting_bytes, stack_bytes, least_cells, most_threads, most_seconds; };

struct DeviceSearch {
    static constexpr size_t LONGEST = 200;  // of the text of a failure
    static constexpr Word JUDGED = Word(1) << 20;  // states at most in a launch
    static constexpr double SHORT = 0.1, LONG = 0.5;  // seconds of a launch, for which it is given more states next time, or fewer
    Sizes sizes;
    bool whole_calls;
    std::vector<uint8_t> config;
    std::vector<Exchange> exchanges;
    std::vector<Int> exchange_numbers;

    Context context;
    Tables tables{};
    Memory<Word> fault, lasting_used, kept, cells, rows, places, counters, coverage;
    Memory<char> lasting, passing;
    Memory<uint8_t> marks;
    Memory<Setting> setting;
    unsigned most_blocks = 1;
    Word level = 0, level_begin = 0, level_end = 0, expanded = 0;
    Word counted[COUNTERS] = {0};
    std::vector<uint8_t> seen;  // as `marks`
    std::vector<Int> broken = std::vector<Int>(SAFETY + STEPS, -1);  // the length of a shortest way to a violation
    std::vector<Word> covered;
    std::string error;

    static constexpr size_t MARKS = 2 * SAFETY + 2 * STEPS + PROGRESS;

    // Memory ---------------------------------------------------------------------------------------------------------------

    void prepare() {
        size_t available = 0, all = 0;
        checked(cudaMemGetInfo(&available, &all), "to ask for the memory that is left");
        Word bytes = Word(double(available) * 0.85);
        if (sizes.bytes && sizes.bytes < bytes) bytes = sizes.bytes;
        checked(cudaDeviceSetLimit(cudaLimitStackSize, sizes.stack_bytes), "to set the size of stacks");
        cudaDeviceProp properties;
        checked(cudaGetDeviceProperties(&properties, 0), "to ask for the device");
        int fit = 0;
        checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, expand_states, int(THREADS), 0), "to ask for the blocks that fit");
        const Word block_bytes = sizes.thread_bytes * THREADS, quarter = bytes / 4;
        most_blocks = unsigned(std::max<Word>(1, std::min<Word>(Word(std::max(1, fit)) * Word(properties.multiProcessorCount), quarter / block_bytes)));
        if (sizes.most_threads) most_blocks = std::min(most_blocks, unsigned(std::max<Word>(1, sizes.most_threads / THREADS)));
        passing.make(most_blocks * block_bytes);
        lasting.make(sizes.lasting_bytes);
        bytes -= std::min(bytes, most_blocks * block_bytes + sizes.lasting_bytes);
        // Of eight parts of what is left, four are for rows, one is for their places, and three are for the table, of which
        // the old half is there too while it grows.
        rows.make(bytes / 2 / sizeof(Word));
        places.make(bytes / 8 / sizeof(Word));
        most_cells = sizes.least_cells;
        while (most_cells * 3 * sizeof(Word) <= bytes / 8 * 3) most_cells *= 2;
        fault.make_empty(3);
        lasting_used.make_empty(1);
        kept.make_empty(MOST_KEPT);
        counters.make_empty(COUNTERS);
        coverage.make_empty(size_t(SLICES) * size_t(TAGS * CODES));
        marks.make_empty(MARKS);
        setting.make(1);
        context.fault = fault.at;
        context.lasting = lasting.at;
        context.lasting_bytes = sizes.lasting_bytes;
        context.lasting_used = lasting_used.at;
        context.kept = kept.at;
        context.root = reinterpret_cast<const char*>(setting.at) + offsetof(Setting, config);
        context.passing = passing.at;
        context.passing_bytes = sizes.thread_bytes;
        tables.setting = setting.at;
        tables.rows = rows.at;
        tables.rows_limit = rows.count;
        tables.places = places.at;
        tables.places_limit = places.count;
        tables.counters = counters.at;
        tables.coverage = coverage.at;
        tables.broken_safety = marks.at;
        tables.broken_step = tables.broken_safety + SAFETY;
        tables.seen_safety = tables.broken_step + STEPS;
        tables.seen_step = tables.seen_safety + SAFETY;
        tables.seen_progress = tables.seen_step + STEPS;
        seen.assign(MARKS, 0);
        use_cells(sizes.least_cells);
    }
    Word most_cells = 0, next_count = 0;
    void use_cells(Word wanted) {
        cells.make_empty(wanted);
        tables.cells = cells.at;
        tables.mask = wanted - 1;
        tables.shift = 64;
        for (Word rest = wanted; rest > 1; rest >>= 1) --tables.shift;
    }
    // Three quarters full at most, if each of the next states has as many new successors as half of the table.
    void grow(Word next) {
        Word wanted = cells.count;
        while (wanted < most_cells && (counted[STATES] + 8 * next) * 4 > wanted * 3) wanted *= 2;
        if (wanted == cells.count) return;
        use_cells(wanted);
        if (counted[STATES]) launch(counted[STATES], [&](unsigned blocks) { CP_LAUNCH(enter_again, blocks, THREADS, tables, counted[STATES]); });
    }

    // Kernels --------------------------------------------------------------------------------------------------------------

    template <class Launch> void launch(Word items, Launch&& start) {
        checked(cudaMemcpyToSymbol(now, &context, sizeof context), "to copy to the device");
        start(unsigned(std::min<Word>(most_blocks, (items + THREADS - 1) / THREADS)));
        checked(cudaGetLastError(), "to start a kernel");
        wait();
        Word failed = 0;
        fault.get(&failed, 0, 1);
        if (failed) throw Refused{text_at(failed) + place()};
        counters.get(counted, 0, COUNTERS);
    }
    // A kernel that does not end cannot be ended from here: the run is given up, and so is the memory.
    void wait() {
        const auto begun = Clock::now();
        cudaError_t state = cudaStreamQuery(nullptr);
        while (state == cudaErrorNotReady) {
            const double seconds = seconds_since(begun);
            if (seconds > double(sizes.most_seconds)) { lose(); throw Refused{"a kernel has not ended after " + std::to_string(sizes.most_seconds) + " seconds (level " + std::to_string(level) + ", state " + std::to_string(expanded) + " of " + std::to_string(level_end) + "): end this process"}; }
            if (seconds > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(50));
            state = cudaStreamQuery(nullptr);
        }
        checked(state, "a kernel");
    }
    static void lose() { Memory<Word>::is_lost = Memory<char>::is_lost = Memory<uint8_t>::is_lost = Memory<Setting>::is_lost = Memory<Exchange>::is_lost = Memory<Int>::is_lost = true; }
    std::string text_at(Word address) {  // of a text on the device
        Memory<char> made;
        made.make_empty(LONGEST);
        CP_LAUNCH(read_text, 1, 1, reinterpret_cast<const char*>(uintptr_t(address)), made.at, LONGEST);
        wait();
        std::string text(LONGEST, ' ');
        made.get(text.data(), 0, LONGEST);
        return text.c_str();
    }
    std::string place() const {
        static const char* const STAGE[STAGES] = {"in the beginning", "reading it", "in its view", "in its continuation", "in its alphabet", "in a step", "in a property", "in its canonical form", "entering it", "writing it"};
        Word found[3];
        fault.get(found, 0, 3);
        return " (state " + std::to_string(found[1]) + ", move " + std::to_string(found[2] & 0xffffffff) + ", " + STAGE[found[2] >> 32] + ")";
    }
    void probe(const uint8_t* state, size_t size, Word* to, Word most) {
        Memory<uint8_t> given;
        given.put(state, size);
        Memory<Word> made;
        made.make_empty(most + 1);
        std::string failed;
        try { launch(1, [&](unsigned) { CP_LAUNCH(probe_state, 1, 1, tables, given.at, made.at, most); }); }
        catch (const Refused& error) { failed = error.about; }
        made.get(to, 0, most + 1);
        if (!failed.empty()) throw Refused{failed};
    }
    void look() {  // at the marks; what is broken and was not before has been broken in this level
        marks.get(seen.data(), 0, MARKS);
        for (size_t rule = 0; rule < broken.size(); ++rule) {
            const bool is_step = rule >= size_t(SAFETY);
            if (seen[rule] && broken[rule] < 0) broken[rule] = Int(level) + is_step;
        }
    }
    void begin(const uint8_t* state, size_t size) {
        prepare();
        Memory<uint8_t> given_config, given_state;
        Memory<Exchange> given_exchanges;
        Memory<Int> given_numbers;
        given_config.put(config.data(), config.size());
        given_state.put(state, size);
        given_exchanges.put(exchanges.data(), exchanges.size());
        given_numbers.put(exchange_numbers.data(), exchange_numbers.size());
        launch(1, [&](unsigned) { CP_LAUNCH(read_setting, 1, 1, setting.at, given_config.at, whole_calls, given_exchanges.at, Int(exchanges.size()), given_numbers.at); });
        launch(1, [&](unsigned) { CP_LAUNCH(enter_first, 1, 1, tables, given_state.at); });
    }
    // Expand states of the level, in parts that give every thread a few, for so many seconds.
    void expand(double seconds) {
        const auto begun = Clock::now();
        const Word threads = Word(most_blocks) * THREADS;
        if (!next_count) next_count = threads;
        do {
            const Word count = std::min(level_end - expanded, std::min(next_count, std::max<Word>(1, most_cells / 32)));
            if (!count) break;
            // A level of few states is shared by more threads: each takes some of the moves of a state.
            const Word parts = level_end == 1 ? 1 : std::max<Word>(1, std::min<Word>(16, threads / count));
            grow(count);
            const auto launched = Clock::now();
            launch(count * parts, [&](unsigned blocks) { CP_LAUNCH(expand_states, blocks, THREADS, tables, expanded, count, parts); });
            expanded += count;
            const double took = seconds_since(launched);
            if (took < SHORT && count == next_count) next_count *= 2;
            if (took > LONG) next_count = std::max<Word>(1, next_count / 2);
        } while (seconds_since(begun) < seconds);
        look();
    }
    void settle() {
        if (level_end) ++level;
        level_begin = level_end;
        level_end = counted[STATES];
        expanded = level_begin;
        for (Word from = level_begin; from < level_end; from += JUDGED) {  // in launches that are short too
            const Word some = std::min(JUDGED, level_end - from);
            launch(some, [&](unsigned blocks) { CP_LAUNCH(judge_states, blocks, THREADS, tables, from, some); });
        }
        look();
    }
    const Word* all_covered() {
        std::vector<Word> slices(coverage.count);
        coverage.get(slices.data(), 0, slices.size());
        covered.assign(size_t(TAGS * CODES), 0);
        for (size_t i = 0; i < slices.size(); ++i) covered[i % covered.size()] += slices[i];
        return covered.data();
    }
};

template <class Work> int guarded(DeviceSearch* search, Work&& work) {
    try { work(); return 0; }
    catch (const Refused& error) { search->error = error.about; }
    catch (const std::exception& error) { search->error = error.what(); }
    return 1;
}

}  // namespace cp

extern "C" {
using cp::DeviceSearch;
using cp::Int;
using cp::Word;

DeviceSearch* cp_cuda_new(const uint8_t* config, Word size, int whole_calls, const Word* sizes) {
    auto* made = new DeviceSearch();
    made->config.assign(config, config + size);
    made->whole_calls = whole_calls;
    made->sizes = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]};
    return made;
}
void cp_cuda_free(DeviceSearch* search) { delete search; }
// Names of a sort: `colours` has one for each name; `group` names follow, group by group, each with its length.
void cp_cuda_exchange(DeviceSearch* search, int sort, const Int* colours, Int count, const Int* groups, Int size) {
    search->exchanges.push_back({sort, count, size});
    search->exchange_numbers.insert(search->exchange_numbers.end(), colours, colours + count);
    search->exchange_numbers.insert(search->exchange_numbers.end(), groups, groups + size);
}
int cp_cuda_begin(DeviceSearch* search, const uint8_t* state, Word size) { return cp::guarded(search, [&] { search->begin(state, size); }); }
int cp_cuda_expand(DeviceSearch* search, double seconds) { return cp::guarded(search, [&] { search->expand(seconds); }); }
int cp_cuda_settle(DeviceSearch* search) { return cp::guarded(search, [&] { search->settle(); }); }
// What one thread sees of a state; `to[0]` is how many numbers there are.
int cp_cuda_probe(DeviceSearch* search, const uint8_t* state, Word size, Word* to, Word most) { return cp::guarded(search, [&] { search->probe(state, size, to, most); }); }
const char* cp_cuda_error(DeviceSearch* search) { return search->error.c_str(); }
// 0 states, 1 transitions, 2 digest, 3 level begin, 4 level end, 5 expanded, 6 bytes of rows, 7 cells, 8 threads
Word cp_cuda_count(DeviceSearch* search, int what) {
    switch (what) {
        case 0: return search->counted[cp::STATES];
        case 1: return search->counted[cp::TRANSITIONS];
        case 2: return search->counted[cp::DIGEST];
        case 3: return search->level_begin;
        case 4: return search->level_end;
        case 5: return search->expanded;
        case 6: return search->counted[cp::ROWS_USED] * sizeof(Word);
        case 7: return search->cells.count;
        case 8: return Word(search->most_blocks) * cp::THREADS;
    }
    return 0;
}
const Int* cp_cuda_broken(DeviceSearch* search, int steps) { return search->broken.data() + (steps ? cp::SAFETY : 0); }
const uint8_t* cp_cuda_seen(DeviceSearch* search, int what) { return search->seen.data() + cp::SAFETY + cp::STEPS + (what > 0 ? cp::SAFETY : 0) + (what > 1 ? cp::STEPS : 0); }
const Word* cp_cuda_coverage(DeviceSearch* search) { try { return search->all_covered(); } catch (const cp::Refused&) { return nullptr; } }
}
