// The kernels: expand states, judge states, and enter rows into the table of known states.
//
// The unit that includes this file has defined what `explorer.hpp` asks for. A state is known by its whole row: in a table
// of cells, each cell holds where a row begins and a part of its hash; a cell never changes once it is set. A thread that
// finds no equal row writes its own, and then tries to set the empty cell. If another thread was faster, it compares with
// that row and goes on, and its own row is left unused.
#pragma once
#include "names.hpp"

namespace cp {

constexpr Int MOVES = Int(1) << 16;
constexpr unsigned SLICES = 64;  // of the coverage, so that fewer threads count at the same place
constexpr int TAG_BITS = 24;
constexpr Word TAG_MASK = (Word(1) << TAG_BITS) - 1;
static_assert(KEPT <= MOST_KEPT, "more functions that remember than there are lists");

struct Setting {  // one for a search, in the memory of the device
    ConfigT config;
    bool whole_calls, exchanges;
    Symmetry<StateT> symmetry;
};

enum Counter { ROWS_USED, STATES, TRANSITIONS, DIGEST, COUNTERS };

struct Tables {  // where everything is; each is in the memory of the device
    const Setting* setting;
    Word* cells;
    Word mask;
    int shift;
    Word *rows, rows_limit;  // words of eight bytes: size and hash, then the row
    Word *places, places_limit;  // of a state, by its number, the beginning of its row
    Word* counters;
    Word* coverage;
    uint8_t *broken_safety, *broken_step, *seen_safety, *seen_step, *seen_progress;
};

// Rows ---------------------------------------------------------------------------------------------------------------------

struct Packed { const Word* words; Word count, hash; };

inline CP_DEVICE Word hash_of(const Word* words, Word count) {
    Word h = 0x9e3779b97f4a7c15ull ^ count;
    for (Word i = 0; i < count; ++i) { h = (h ^ words[i]) * 0xff51afd7ed558ccdull; h ^= h >> 32; }
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ (h >> 29);
}
inline CP_DEVICE CP_APART Packed packed(const StateT& state) {
    Bytes out;
    out.need(sizeof(Word));
    out.last = out.first + sizeof(Word);  // the head, which is known later
    put(out, state);
    const Word size = out.size() - sizeof(Word);
    out.need(sizeof(Word));
    while (out.size() % sizeof(Word)) *out.last++ = 0;
    auto* words = reinterpret_cast<Word*>(out.first);
    const Word count = out.size() / sizeof(Word), hash = hash_of(words + 1, count - 1);
    words[0] = size << 32 | hash >> 32;
    return {words, count, hash};
}
inline CP_DEVICE bool is_row(const Word* row, const Packed& wanted) {  // another thread may have written it just now
    for (Word i = 0; i < wanted.count; ++i) if (__ldcg(row + i) != wanted.words[i]) return false;
    return true;
}
inline CP_DEVICE Word written(const Tables& all, const Packed& row) {  // where it begins
    const Word begin = atomicAdd(all.counters + ROWS_USED, row.count);
    if (begin + row.count > all.rows_limit) fail("the memory for states is full");
    for (Word i = 0; i < row.count; ++i) all.rows[begin + i] = row.words[i];
    __threadfence();
    return begin;
}
inline CP_DEVICE CP_APART void enter(const Tables& all, const StateT& state) {
    const Packed row = packed(state);
    const Word tag = row.hash & TAG_MASK;
    Word own = 0, begin = 0, at = row.hash >> all.shift;
    for (Word tried = 0; tried <= all.mask; ++tried, at = (at + 1) & all.mask) {
        Word cell = __ldcg(all.cells + at);
        if (!cell) {
            if (!own) { begin = written(all, row); own = (begin + 1) << TAG_BITS | tag; }
            cell = atomicCAS(all.cells + at, Word(0), own);
            if (!cell) {
                const Word number = atomicAdd(all.counters + STATES, Word(1));
                if (number >= all.places_limit) fail("more states than can be numbered");
                all.places[number] = begin;
                return;
            }
        }
        if ((cell & TAG_MASK) == tag && is_row(all.rows + (cell >> TAG_BITS) - 1, row)) return;
    }
    fail("the table of states is full");
}
inline CP_DEVICE CP_APART StateT state_at(const Tables& all, Word number) {
    const auto* in = reinterpret_cast<const uint8_t*>(all.rows + all.places[number] + 1);
    return take<StateT>(in);
}

// Steps --------------------------------------------------------------------------------------------------------------------

struct Expansion {  // by one thread
    const Tables& all;
    const Setting& setting;
    Word transitions = 0;
    CP_DEVICE explicit Expansion(const Tables& tables) : all(tables), setting(*tables.setting) {}

    CP_DEVICE CP_APART MovedT counted(const StateT& state, const Op& op) {
        const MovedT moved = step_of(setting.config, state, op);
        atomicAdd(all.coverage + Word(blockIdx.x % SLICES) * Word(TAGS * CODES) + Word(op.tag * CODES + moved.f1.code), Word(1));
        return moved;
    }
    CP_DEVICE CP_APART MovedT call(const StateT& state, const Op& op) {
        MovedT moved = counted(state, op);
        Builder<StateT> visited;
        while (true) {
            const Opt<Op> next = continuation_of(setting.config, moved.f0);
            if (!next.has) return moved;
            for (const StateT& each : visited.seq()) if (eq(each, moved.f0)) { moved.f1 = diverged(); return moved; }
            visited.add(moved.f0);
            moved = counted(moved.f0, next.value);
        }
    }
    CP_DEVICE CP_APART void judge_step(const ViewT& before, const Op& op, const OutcomeT& outcome, const ViewT& after) {
        for (int rule = 0; rule < STEPS; ++rule) {
            if (!step_holds(rule, setting.config, before, op, outcome, after)) all.broken_step[rule] = 1;
            if (!all.seen_step[rule] && step_witness(rule, setting.config, before, op, outcome, after)) all.seen_step[rule] = 1;
        }
    }
    CP_DEVICE CP_APART StateT canonical(const StateT& state) const {
        const StateT plain = canonical_of(setting.config, state);
        return setting.exchanges ? setting.symmetry.least(plain) : plain;
    }
    // Those moves of a state whose number leaves the rest `part` if it is divided by `parts`.
    CP_DEVICE void expand(Word number, Word part, Word parts) {
        empty_arena();
        doings[threadIdx.x] = {number, READING, 0};
        const StateT state = state_at(all, number);
        doing(VIEWING);
        const ViewT before = view_of(setting.config, state);
        doing(CONTINUING);
        const Opt<Op> next = continuation_of(setting.config, state);
        doing(OFFERING);
        const Seq<Op> offered = next.has ? Seq<Op>{&next.value, 1} : alphabet_of(setting.config, state);
        const Arena mark = own_arena();
        Word move = 0;
        for (const Op& op : offered) {
            if (!next.has && !supported(op.tag)) continue;
            if (move == Word(MOVES)) fail("a state has more moves than can be numbered");
            if (move++ % parts != part) continue;
            own_arena() = mark;
            doings[threadIdx.x].move = unsigned(move - 1);
            doing(STEPPING);
            const MovedT moved = (setting.whole_calls && !next.has) ? call(state, op) : counted(state, op);
            ++transitions;
            doing(JUDGING);
            if (eq(moved.f0, state)) { judge_step(before, op, moved.f1, before); continue; }
            judge_step(before, op, moved.f1, view_of(setting.config, moved.f0));
            doing(FORMING);
            const StateT form = canonical(moved.f0);
            doing(ENTERING);
            enter(all, form);
        }
    }
};

__global__ void expand_states(Tables all, Word from, Word count, Word parts) {
    Expansion own(all);
    for (Word item = own_thread(); item < count * parts && !has_failed(); item += Word(gridDim.x) * THREADS)
        own.expand(from + item % count, item / count, parts);
    if (own.transitions) atomicAdd(all.counters + TRANSITIONS, own.transitions);
}

// States -------------------------------------------------------------------------------------------------------------------

inline CP_DEVICE uint64_t judge_state(const Tables& all, Word number) {  // its digest
    empty_arena();
    doings[threadIdx.x] = {number, READING, 0};
    const ConfigT& config = all.setting->config;
    const StateT state = state_at(all, number);
    doing(WRITING);
    Written text;
    json(text, state);
    doing(VIEWING);
    const ViewT view = view_of(config, state);
    doing(JUDGING);
    for (int rule = 0; rule < SAFETY; ++rule) {
        if (!safety_holds(rule, config, view)) all.broken_safety[rule] = 1;
        if (!all.seen_safety[rule] && safety_witness(rule, config, view)) all.seen_safety[rule] = 1;
    }
    for (int rule = 0; rule < PROGRESS; ++rule) if (!all.seen_progress[rule] && progress_pending(rule, config, view)) all.seen_progress[rule] = 1;
    return text.number();
}
__global__ void judge_states(Tables all, Word from, Word count) {
    Word digest = 0;
    for (Word item = own_thread(); item < count && !has_failed(); item += Word(gridDim.x) * THREADS) digest += judge_state(all, from + item);
    if (digest) atomicAdd(all.counters + DIGEST, digest);
}

// Beginnings ---------------------------------------------------------------------------------------------------------------

struct Exchange { Int sort, colours, groups; };  // how many numbers there are of each, which follow in this order

__global__ void read_setting(Setting* made, const uint8_t* config, bool whole_calls, const Exchange* exchanges, Int sorts, const Int* numbers) {
    own_arena() = {nullptr, nullptr};  // all of it lasts
    doings[threadIdx.x] = {0, BEGINNING, 0};
    new (made) Setting{take<ConfigT>(config), whole_calls, sorts > 0, {}};
    auto* classes = room<Seq<Seq<Int>>>(Int(SORTS));
    auto* first = room<Seq<Int>>(Int(SORTS));
    for (size_t sort = 0; sort < SORTS; ++sort) { classes[sort] = {}; first[sort] = {}; }
    for (Int i = 0; i < sorts; ++i) {
        first[exchanges[i].sort] = copied(Seq<Int>{numbers, exchanges[i].colours});
        numbers += exchanges[i].colours;
        classes[exchanges[i].sort] = groups_of(numbers, exchanges[i].groups);
        numbers += exchanges[i].groups;
    }
    made->symmetry.classes = {classes, Int(SORTS)};
    made->symmetry.first.of_sort = {first, Int(SORTS)};
}
__global__ void read_text(const char* text, char* to, size_t size) {  // with a zero behind it
    for (size_t i = 0; i + 1 < size && text[i]; ++i) to[i] = text[i];
}
__global__ void enter_first(Tables all, const uint8_t* state) {
    empty_arena();
    doings[threadIdx.x] = {0, BEGINNING, 0};
    enter(all, take<StateT>(state));
}
// What one thread sees of one state, for a comparison with another machine: a number for each stage. The first ones are of
// the configuration, the state, its text, its view's verdicts and the number of moves; then six for each move.
__global__ void probe_state(Tables all, const uint8_t* given, Word* seen, Word most) {
    empty_arena();
    doings[threadIdx.x] = {0, READING, 0};
    const ConfigT& config = all.setting->config;
    Word count = 0;
    auto see = [&](Word value) { if (count < most) seen[1 + count] = value; ++count; seen[0] = count; };
    auto see_text = [&](const auto& value) { Written text; json(text, value); see(text.number()); };
    auto see_bytes = [&](const auto& value) { Bytes out; out.need(8); put(out, value); Word h = out.size(); for (size_t i = 0; i < out.size(); ++i) h = h * 0x100000001b3ull ^ out.first[i]; see(h); };
    see_bytes(config);
    const StateT state = take<StateT>(given);
    see_bytes(state);
    see_text(state);
    doing(VIEWING);
    const ViewT before = view_of(config, state);
    Word bits = 0;
    for (int rule = 0; rule < SAFETY; ++rule) bits = bits * 2 + safety_holds(rule, config, before);
    see(bits);
    doing(CONTINUING);
    const Opt<Op> next = continuation_of(config, state);
    doing(OFFERING);
    const Seq<Op> offered = next.has ? Seq<Op>{&next.value, 1} : alphabet_of(config, state);
    see(Word(offered.n));
    const Arena mark = own_arena();
    Expansion own(all);
    for (const Op& op : offered) {
        own_arena() = mark;
        see_text(op);
        if (!next.has && !supported(op.tag)) continue;
        doings[threadIdx.x].move = unsigned(count);
        doing(STEPPING);
        const MovedT moved = (all.setting->whole_calls && !next.has) ? own.call(state, op) : own.counted(state, op);
        see(Word(moved.f1.code));
        see_bytes(moved.f0);
        doing(JUDGING);
        const ViewT after = view_of(config, moved.f0);
        bits = 0;
        for (int rule = 0; rule < STEPS; ++rule) bits = bits * 2 + step_holds(rule, config, before, op, moved.f1, after);
        see(bits);
        doing(FORMING);
        see_bytes(canonical_of(config, moved.f0));
        see_bytes(own.canonical(moved.f0));
    }
}
__global__ void enter_again(Tables all, Word count) {  // known rows, into a larger table
    for (Word number = own_thread(); number < count; number += Word(gridDim.x) * THREADS) {
        const Word begin = all.places[number];
        const Word* row = all.rows + begin;
        const Word hash = hash_of(row + 1, ((row[0] >> 32) + sizeof(Word) - 1) / sizeof(Word));
        Word at = hash >> all.shift;
        while (atomicCAS(all.cells + at, Word(0), (begin + 1) << TAG_BITS | (hash & TAG_MASK))) at = (at + 1) & all.mask;
    }
}

}  // namespace cp
