// The breadth-first search over a compiled variant, and what Python asks of it.
//
// The unit that includes this file has defined: ConfigT, StateT, ViewT, MovedT; view_of, alphabet_of, continuation_of,
// step_of, canonical_of; supported, is_internal, TAGS, CODES, DIVERGED; the properties and their numbers.
#pragma once
#include "search.hpp"

namespace cp {

constexpr Int MOVES = Int(1) << 16;

struct Explorer {
    ConfigT config;
    bool whole_calls = false, liveness = false;
    Symmetry<StateT> symmetry;
    bool exchanges = false;
    Known known;
    std::vector<Int> found_by;
    std::vector<uint64_t> pending;
    size_t level_begin = 0, level_end = 0, expanded = 0;
    Int transitions = 0;
    uint64_t digest = 0;
    std::vector<Int> broken_safety = std::vector<Int>(SAFETY, -2), broken_step = std::vector<Int>(STEPS, -2);
    std::vector<char> seen_safety = std::vector<char>(SAFETY, 0), seen_step = std::vector<char>(STEPS, 0), seen_progress = std::vector<char>(PROGRESS, 0);
    std::vector<Int> coverage = std::vector<Int>(size_t(TAGS * CODES), 0);
    std::vector<uint64_t> owed_sources, owed_labels, owed_targets;
    std::vector<uint16_t> owed_moves;
    std::unordered_map<std::string, uint64_t> labels;
    std::vector<std::string> operations;
    std::string text, error;
    Bytes row, raw;
    Remembered remembered;
    int safety_left = SAFETY, step_left = STEPS, progress_left = PROGRESS;

    StateT canonical(const StateT& state) const {
        const StateT plain = canonical_of(config, state);
        return exchanges ? symmetry.least(plain) : plain;
    }
    void note(std::vector<Int>& broken, int rule, Int at) { if (broken[size_t(rule)] == -2 || at < broken[size_t(rule)]) broken[size_t(rule)] = at; }

    size_t reach(const StateT& state, Int at) {
        const auto [place, is_new] = known.find_or_add(row);
        if (is_new) {
            found_by.push_back(at);
            text.clear();
            json(text, state);
            digest += digest_of(text);
        }
        return place;
    }
    size_t reached(const StateT& state, Int at) {  // the number of its canonical form, which a row seen lately need not find
        raw.clear();
        put(raw, state);
        const uint64_t hash = hashed(raw.data(), raw.size());
        Remembered::Entry& entry = remembered.at(hash);
        if (entry.hash == hash && entry.row == raw) return entry.place;
        const StateT form = canonical(state);
        row.clear();
        put(row, form);
        entry.place = reach(form, at);
        entry.hash = hash;
        entry.row = raw;
        return entry.place;
    }
    void begin(const uint8_t* in) {
        const StateT state = take<StateT>(in);
        row.clear();
        put(row, state);
        reach(state, -1);
        arena->clear();
    }
    StateT state_at(size_t place) const { const uint8_t* in = known.rows[place]; return take<StateT>(in); }

    MovedT counted(const StateT& state, const Op& op) {
        const MovedT moved = step_of(config, state, op);
        ++coverage[size_t(op.tag * CODES + moved.f1.code)];
        return moved;
    }
    MovedT call(const StateT& state, const Op& op) {
        MovedT moved = counted(state, op);
        Builder<StateT> visited;
        while (true) {
            const Opt<Op> next = continuation_of(config, moved.f0);
            if (!next.has) return moved;
            for (const StateT& each : visited.seq()) if (eq(each, moved.f0)) { moved.f1 = DIVERGED; return moved; }
            visited.add(moved.f0);
            moved = counted(moved.f0, next.value);
        }
    }
    void judge_step(Int at, const ViewT& before, const Op& op, const OutcomeT& outcome, const ViewT& after) {
        for (int rule = 0; rule < STEPS; ++rule) if (!step_holds(rule, config, before, op, outcome, after)) note(broken_step, rule, at);
        if (step_left)
            for (int rule = 0; rule < STEPS; ++rule) if (!seen_step[size_t(rule)] && step_witness(rule, config, before, op, outcome, after)) { seen_step[size_t(rule)] = 1; --step_left; }
    }
    void judge_state(Int at, const ViewT& view, size_t place) {
        for (int rule = 0; rule < SAFETY; ++rule) if (!safety_holds(rule, config, view)) note(broken_safety, rule, at);
        if (safety_left)
            for (int rule = 0; rule < SAFETY; ++rule) if (!seen_safety[size_t(rule)] && safety_witness(rule, config, view)) { seen_safety[size_t(rule)] = 1; --safety_left; }
        if (!progress_left && !liveness) return;
        uint64_t bits = 0;
        for (int rule = 0; rule < PROGRESS; ++rule)
            if (progress_pending(rule, config, view)) { bits |= uint64_t(1) << rule; if (!seen_progress[size_t(rule)]) { seen_progress[size_t(rule)] = 1; --progress_left; } }
        if (liveness) pending[place] = bits;
    }
    void settle() {
        level_begin = level_end;
        level_end = known.size();
        expanded = level_begin;
        pending.resize(known.size(), 0);
        for (size_t place = level_begin; place < level_end; ++place) {
            const StateT state = state_at(place);
            judge_state(found_by[place], view_of(config, state), place);
            arena->clear();
        }
    }
    uint64_t label_of(const Op& op) {
        std::string name;
        json(name, op);
        const auto [at, is_new] = labels.try_emplace(name, operations.size() + 1);
        if (is_new) operations.push_back(name);
        return at->second;
    }
    void expand_one(size_t place) {
        const StateT state = state_at(place);
        const ViewT before = view_of(config, state);
        const Opt<Op> next = continuation_of(config, state);
        const bool labelled = liveness && pending[place] != 0;
        const Seq<Op> offered = next.has ? Seq<Op>{&next.value, 1} : alphabet_of(config, state);
        Int move = 0;
        for (const Op& op : offered) {
            if (!next.has && !supported(op.tag)) continue;
            const MovedT moved = (whole_calls && !next.has) ? call(state, op) : counted(state, op);
            ++transitions;
            const Int at = Int(place) * MOVES + move++;
            judge_step(at, before, op, moved.f1, view_of(config, moved.f0));
            const size_t target = reached(moved.f0, at);
            if (target == place) continue;
            if (labelled && (next.has || is_internal(op.tag))) {
                owed_sources.push_back(place);
                owed_moves.push_back(uint16_t(move - 1));
                owed_labels.push_back(label_of(op));
                owed_targets.push_back(target);
            }
            if (move >= MOVES) fail("a state has more moves than can be numbered");
        }
        arena->clear();
    }
    void expand(size_t most, double seconds) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        for (size_t done = 0; done < most && expanded < level_end; ++done) {
            expand_one(expanded++);
            if ((done & 15) == 15 && std::chrono::steady_clock::now() >= end) return;
        }
    }
};

template <class F> int guarded(Explorer* search, F&& work) {
    try { work(); return 0; }
    catch (const std::exception& error) { arena = &passing; search->error = error.what(); return 1; }
}

}  // namespace cp

extern "C" {
using cp::Explorer;
using cp::Int;

Explorer* cp_new(const uint8_t* config, int whole_calls, int liveness) {
    auto* made = new Explorer();
    const cp::Lasting lasting;
    made->config = cp::take<cp::ConfigT>(config);
    made->whole_calls = whole_calls;
    made->liveness = liveness;
    made->symmetry.classes.resize(cp::SORTS);
    made->symmetry.first.of_sort.resize(cp::SORTS);
    made->symmetry.scan = cp::scan_root;
    made->symmetry.rename = cp::rename_root;
    return made;
}
void cp_free(Explorer* search) { delete search; }
// Names of a sort: `colours` has one for each name; `group` names follow, group by group, each with its length.
void cp_exchange(Explorer* search, int sort, const Int* colours, Int count, const Int* groups, Int size) {
    search->exchanges = true;
    search->symmetry.first.of_sort[size_t(sort)].assign(colours, colours + count);
    for (Int at = 0; at < size;) {
        const Int length = groups[at++];
        search->symmetry.classes[size_t(sort)].push_back(std::vector<Int>(groups + at, groups + at + length));
        at += length;
    }
}
int cp_begin(Explorer* search, const uint8_t* state) { return cp::guarded(search, [&] { search->begin(state); }); }
int cp_expand(Explorer* search, uint64_t most, double seconds) { return cp::guarded(search, [&] { search->expand(most, seconds); }); }
int cp_settle(Explorer* search) { return cp::guarded(search, [&] { search->settle(); }); }
const char* cp_error(Explorer* search) { return search->error.c_str(); }
// 0 states, 1 transitions, 2 digest, 3 level begin, 4 level end, 5 expanded, 6 bytes, 7 owed steps, 8 labels
uint64_t cp_count(Explorer* search, int what) {
    switch (what) {
        case 0: return search->known.size();
        case 1: return uint64_t(search->transitions);
        case 2: return search->digest;
        case 3: return search->level_begin;
        case 4: return search->level_end;
        case 5: return search->expanded;
        case 6: return search->known.bytes();
        case 7: return search->owed_sources.size();
        case 8: return search->operations.size();
    }
    return 0;
}
const Int* cp_found_by(Explorer* search) { return search->found_by.data(); }
const uint64_t* cp_pending(Explorer* search) { return search->pending.data(); }
const Int* cp_broken(Explorer* search, int steps) { return steps ? search->broken_step.data() : search->broken_safety.data(); }
const char* cp_seen(Explorer* search, int what) { return what == 0 ? search->seen_safety.data() : what == 1 ? search->seen_step.data() : search->seen_progress.data(); }
const Int* cp_coverage(Explorer* search) { return search->coverage.data(); }
const uint64_t* cp_owed(Explorer* search, int what) { return what == 0 ? search->owed_sources.data() : what == 1 ? search->owed_labels.data() : search->owed_targets.data(); }
const uint16_t* cp_owed_moves(Explorer* search) { return search->owed_moves.data(); }
const char* cp_operation(Explorer* search, uint64_t label) { return search->operations[label - 1].c_str(); }
const char* cp_state(Explorer* search, uint64_t place) {
    search->text.clear();
    cp::json(search->text, search->state_at(place));
    cp::arena->clear();
    return search->text.c_str();
}
}
