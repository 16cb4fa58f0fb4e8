// The breadth-first search over a compiled variant, and what Python asks of it.
//
// The unit that includes this file has defined: ConfigT, StateT, ViewT, MovedT; view_of, alphabet_of, continuation_of,
// step_of, canonical_of; supported, is_internal, TAGS, CODES, diverged; the properties and their numbers.
//
// Threads take blocks of a level in turn. While they work, nothing is added to the known states: each keeps what is new to
// it. Then one thread goes through the blocks in their order, so new states get the numbers that one thread alone would
// give them.
#pragma once
#include "names.hpp"
#include "owners.hpp"
#include "states.hpp"
#include "threads.hpp"
#include <algorithm>
#include <chrono>
#include <numeric>
#include <unordered_map>
#include <vector>

namespace cp {

constexpr Int MOVES = Int(1) << 16, NEVER = -2;
constexpr size_t EXPANDED_BLOCK = 16, JUDGED_BLOCK = 64;
constexpr uint64_t PROVISIONAL = uint64_t(1) << 63;  // not the number of a state, but which of the worker's new ones it is

using Clock = std::chrono::steady_clock;

struct Tally {  // what is counted and seen, by one thread or by all
    Int transitions = 0;
    uint64_t digest = 0;
    std::vector<Int> broken_safety = std::vector<Int>(SAFETY, NEVER), broken_step = std::vector<Int>(STEPS, NEVER);
    std::vector<char> seen_safety = std::vector<char>(SAFETY, 0), seen_step = std::vector<char>(STEPS, 0), seen_progress = std::vector<char>(PROGRESS, 0);
    std::vector<Int> coverage = std::vector<Int>(size_t(TAGS * CODES), 0);
    static void note(Int& broken, Int at) { if (broken == NEVER || at < broken) broken = at; }
    static void note_all(std::vector<Int>& own, const std::vector<Int>& other) { for (size_t i = 0; i < own.size(); ++i) if (other[i] != NEVER) note(own[i], other[i]); }
    static void see_all(std::vector<char>& own, const std::vector<char>& other) { for (size_t i = 0; i < own.size(); ++i) own[i] |= other[i]; }
    void see(const Tally& other) {
        see_all(seen_safety, other.seen_safety);
        see_all(seen_step, other.seen_step);
        see_all(seen_progress, other.seen_progress);
    }
    void add(const Tally& other) {
        transitions += other.transitions;
        digest += other.digest;
        note_all(broken_safety, other.broken_safety);
        note_all(broken_step, other.broken_step);
        for (size_t i = 0; i < coverage.size(); ++i) coverage[i] += other.coverage[i];
        see(other);
    }
};

struct Owed { uint64_t source, label, target; uint16_t move; };  // a step for the search for lassos

struct Labels {  // operations by number, from 1 on
    std::unordered_map<std::string, uint64_t> numbers;
    std::vector<std::string> texts;
    uint64_t of(const std::string& text) {
        const auto [at, is_new] = numbers.try_emplace(text, texts.size() + 1);
        if (is_new) texts.push_back(text);
        return at->second;
    }
};

struct Search {  // what all threads read
    ConfigT config;
    bool whole_calls = false, liveness = false, exchanges = false;
    Symmetry<StateT> symmetry;
    Known known;
    std::vector<Int> found_by;
    std::vector<uint64_t> pending;
    Labels labels;
    Owners owners;
    size_t level_begin = 0, level_end = 0, expanded = 0;
    void found_at(size_t place, Int at) { if (owners.several() && place >= level_end && at < found_by[place]) found_by[place] = at; }
    StateT state_at(size_t place) const { const uint8_t* in = Packing::unpack(known.row(place).data); return take<StateT>(in); }
    StateT canonical(const StateT& state) const {
        const StateT plain = canonical_of(config, state);
        return exchanges ? symmetry.least(plain) : plain;
    }
};

struct Worker {  // one thread: what it found in this slice, and what it remembers
    struct Fresh { uint64_t hash; Int at; size_t begin; uint32_t size; };
    struct Block { size_t number, fresh, owed; };  // where what is new in the block ends
    Search& search;
    Arena passing, own;
    Context context{&passing, &own, &search.config};
    Tally tally;
    Bytes raw, plain, row, fresh_rows;
    Remembered remembered;
    std::vector<Fresh> fresh;
    Table fresh_table;
    std::vector<uint64_t> resolved;  // the numbers that its new states were given, over all slices
    std::vector<Owed> owed;
    Labels labels;
    std::vector<Block> blocks;
    std::exception_ptr error;
    Written text;
    std::vector<int> unseen_safety = std::vector<int>(SAFETY), unseen_steps = std::vector<int>(STEPS);  // whose witnesses were not reached yet
    bool all_progress = false;

    explicit Worker(Search& own) : search(own) {
        std::iota(unseen_safety.begin(), unseen_safety.end(), 0);
        std::iota(unseen_steps.begin(), unseen_steps.end(), 0);
    }
    ~Worker() { passing.free(); own.free(); }

    // Steps ------------------------------------------------------------------------------------------------------------

    uint64_t settled(uint64_t target) const {
        const size_t place = target & ~PROVISIONAL;
        return (target & PROVISIONAL) && place < resolved.size() ? resolved[place] : target;
    }
    uint64_t number_of(const Row& wanted, uint64_t hash, Int at) {
        if (!search.owners.owns(hash)) return search.owners.send(wanted, hash, at);
        const size_t known = search.known.find(wanted, hash);
        if (known != SIZE_MAX) { search.found_at(known, at); return known; }
        size_t mine = fresh_table.find(hash, [&](size_t i) { return same({fresh_rows.data() + fresh[i].begin, fresh[i].size}, wanted); });
        if (mine == SIZE_MAX) {
            mine = fresh.size();
            fresh.push_back({hash, at, fresh_rows.size(), wanted.size});
            fresh_rows.need(wanted.size);
            std::memcpy(fresh_rows.last, wanted.data, wanted.size);
            fresh_rows.last += wanted.size;
            if (fresh_table.is_full()) {
                fresh_table.empty(fresh_table.cells.size() * 2);
                for (size_t i = 0; i < mine; ++i) fresh_table.set(fresh[i].hash, i);
            }
            fresh_table.set(hash, mine);
        }
        return PROVISIONAL | (resolved.size() + mine);
    }
    MovedT counted(const StateT& state, const Op& op) {
        const MovedT moved = step_of(search.config, state, op);
        ++tally.coverage[size_t(op.tag * CODES + moved.f1.code)];
        return moved;
    }
    MovedT call(const StateT& state, const Op& op) {
        MovedT moved = counted(state, op);
        Builder<StateT> visited;
        while (true) {
            const Opt<Op> next = continuation_of(search.config, moved.f0);
            if (!next.has) return moved;
            for (const StateT& each : visited.seq()) if (eq(each, moved.f0)) { moved.f1 = diverged(); return moved; }
            visited.add(moved.f0);
            moved = counted(moved.f0, next.value);
        }
    }
    void judge_step(Int at, const ViewT& before, const Op& op, const OutcomeT& outcome, const ViewT& after) {
        if (!every_step_holds(search.config, before, op, outcome, after))
            for (int rule = 0; rule < STEPS; ++rule) if (!step_holds(rule, search.config, before, op, outcome, after)) Tally::note(tally.broken_step[size_t(rule)], at);
        look_for(unseen_steps, tally.seen_step, [&](int rule) { return step_witness(rule, search.config, before, op, outcome, after); });
    }
    template <class Found> static void look_for(std::vector<int>& unseen, std::vector<char>& seen, Found&& found) {
        for (size_t i = 0; i < unseen.size();) {
            char& own = seen[size_t(unseen[i])];
            if (own || (own = found(unseen[i]))) { unseen[i] = unseen.back(); unseen.pop_back(); }
            else ++i;
        }
    }
    // All moves are taken first, and then looked up: what a step needs of the memory comes while the others are at work.
    struct Move { const Op* op; MovedT moved; Int at; bool stays; uint64_t hash, target; Remembered::Entry* entry; size_t begin; uint32_t size; };
    struct Form { Move* move; uint64_t hash; size_t begin, guess; uint32_t size; };
    void expand(size_t place) {
        remembered.widen();
        const StateT state = search.state_at(place);
        const ViewT before = view_of(search.config, state);
        const Opt<Op> next = continuation_of(search.config, state);
        const bool labelled = search.liveness && search.pending[place] != 0;
        const Seq<Op> offered = next.has ? Seq<Op>{&next.value, 1} : alphabet_of(search.config, state);
        Move* const moves = room<Move>(offered.n);
        Form* const forms = room<Form>(offered.n);
        Int taken = 0, unknown = 0;
        raw.clear();
        row.clear();
        for (const Op& op : offered) {
            if (!next.has && !supported(op.tag)) continue;
            if (taken == MOVES) fail("a state has more moves than can be numbered");
            Move& own = *new (moves + taken) Move{&op, (search.whole_calls && !next.has) ? call(state, op) : counted(state, op)};
            own.at = Int(search.owners.number_at(place)) * MOVES + taken++;
            own.stays = eq(own.moved.f0, state);
            if (own.stays) continue;
            own.begin = raw.size();
            put(raw, own.moved.f0);
            own.size = uint32_t(raw.size() - own.begin);
            own.hash = hashed(raw.data() + own.begin, own.size);
            own.entry = &remembered.at(own.hash);
            __builtin_prefetch(own.entry);
        }
        tally.transitions += taken;
        for (Int i = 0; i < taken; ++i) if (!moves[i].stays && moves[i].entry->hash == moves[i].hash) __builtin_prefetch(remembered.row(*moves[i].entry));
        for (Int i = 0; i < taken; ++i) {
            Move& own = moves[i];
            if (own.stays) { judge_step(own.at, before, *own.op, own.moved.f1, before); continue; }
            judge_step(own.at, before, *own.op, own.moved.f1, view_of(search.config, own.moved.f0));
            auto& entry = *own.entry;
            if (remembered.holds(entry, {raw.data() + own.begin, own.size}, own.hash)) { own.target = entry.target = settled(entry.target); continue; }
            Form& form = forms[unknown++];
            form = {&own, 0, row.size(), 0, 0};
            put_packed(row, plain, search.canonical(own.moved.f0));
            form.size = uint32_t(row.size() - form.begin);
            form.hash = hashed(row.data() + form.begin, form.size);
            search.known.fetch_cell(form.hash);
        }
        for (Int i = 0; i < unknown; ++i) forms[i].guess = search.known.fetch_place(forms[i].hash);
        for (Int i = 0; i < unknown; ++i) search.known.fetch_row(forms[i].guess);
        for (Int i = 0; i < unknown; ++i) {  // a row that was seen lately need not be looked for
            Move& own = *forms[i].move;
            own.target = number_of({row.data() + forms[i].begin, forms[i].size}, forms[i].hash, own.at);
            remembered.keep(*own.entry, {raw.data() + own.begin, own.size}, own.hash, own.target);
        }
        if (labelled) for (Int i = 0; i < taken; ++i) if (!moves[i].stays && moves[i].target != place && (next.has || is_internal(moves[i].op->tag))) owe(moves[i], place);
        passing.clear();
    }
    void owe(const Move& move, size_t place) {
        text.clear();
        json(text, *move.op);
        if (move.target & FOREIGN && !(move.target & PROVISIONAL)) search.owners.send_step(move.target, move.at, search.labels.of(text.str()));
        else owed.push_back({place, labels.of(text.str()), move.target, uint16_t(move.at % MOVES)});
    }

    // States -------------------------------------------------------------------------------------------------------------

    void judge(size_t place) {
        const StateT state = search.state_at(place);
        text.clear();
        json(text, state);
        tally.digest += digest_of(text);
        const ViewT view = view_of(search.config, state);
        if (!every_safety_holds(search.config, view))
            for (int rule = 0; rule < SAFETY; ++rule) if (!safety_holds(rule, search.config, view)) Tally::note(tally.broken_safety[size_t(rule)], search.found_by[place]);
        look_for(unseen_safety, tally.seen_safety, [&](int rule) { return safety_witness(rule, search.config, view); });
        if (!all_progress || search.liveness) judge_progress(place, view);
        passing.clear();
    }
    void judge_progress(size_t place, const ViewT& view) {
        uint64_t bits = 0;
        all_progress = true;
        for (int rule = 0; rule < PROGRESS; ++rule) {
            char& seen = tally.seen_progress[size_t(rule)];
            if (progress_pending(rule, search.config, view)) { bits |= uint64_t(1) << rule; seen = 1; }
            all_progress = all_progress && seen;
        }
        if (search.liveness) search.pending[place] = bits;
    }
};

struct Explorer : Search {
    Arena lasting_of_config;
    std::vector<std::unique_ptr<Worker>> workers;
    std::unique_ptr<Threads> threads;
    Tally tally;
    std::vector<uint64_t> owed_sources, owed_labels, owed_targets;
    std::vector<uint16_t> owed_moves;
    size_t owed_numbered = 0;  // the targets of the others are places yet
    Written text;
    std::string error;

    ~Explorer() { lasting_of_config.free(); }

    // `count` blocks, by as many threads as are of use; each thread ends with the block in which the time is over.
    template <class Work> size_t shared(size_t count, double seconds, Work&& work) {
        const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        std::atomic<size_t> next{0};
        auto run = [&](size_t own) {
            Worker& worker = *workers[own];
            context = &worker.context;
            try {
                do {
                    const size_t block = next.fetch_add(1);
                    if (block >= count) break;
                    work(worker, block);
                } while (Clock::now() < end);
            } catch (...) { worker.error = std::current_exception(); next = count; }
            worker.passing.clear();
            context = &main_context;
        };
        if (threads && count > 1) threads->all(run);
        else run(0);
        for (auto& worker : workers) { if (worker->error) std::rethrow_exception(std::exchange(worker->error, nullptr)); }
        gather();
        return std::min<size_t>(next, count);
    }
    void gather() {
        for (auto& worker : workers) {
            tally.add(worker->tally);
            worker->tally = Tally();
        }
        for (auto& worker : workers) worker->tally.see(tally);
    }
    void begin(const uint8_t* in) {
        Bytes row, plain;
        shared(1, 0.0, [&](Worker&, size_t) { put_packed(row, plain, canonical(take<StateT>(in))); });
        const uint64_t hash = hashed(row.data(), row.size());
        if (!owners.owns(hash)) return;
        known.add({row.data(), uint32_t(row.size())}, hash);
        found_by.push_back(-1);
    }
    void expand(size_t most, double seconds) {
        owners.clear();
        for (auto& worker : workers) worker->remembered.make(exchanges);
        const size_t from = expanded, end = level_end - from > most ? from + most : level_end;
        const size_t blocks = shared((end - from + EXPANDED_BLOCK - 1) / EXPANDED_BLOCK, seconds, [&](Worker& worker, size_t block) {
            const size_t first = from + block * EXPANDED_BLOCK, last = std::min(end, first + EXPANDED_BLOCK);
            for (size_t place = first; place < last; ++place) worker.expand(place);
            worker.blocks.push_back({block, worker.fresh.size(), worker.owed.size()});
        });
        merge(blocks);
        expanded = std::min(end, from + blocks * EXPANDED_BLOCK);
    }
    void merge(size_t blocks) {
        std::vector<size_t> block(workers.size(), 0), fresh(workers.size(), 0), owed(workers.size(), 0), owner(blocks);
        for (size_t own = 0; own < workers.size(); ++own) for (const auto& each : workers[own]->blocks) owner[each.number] = own;
        for (size_t number = 0; number < blocks; ++number) {
            const size_t own = owner[number];
            Worker& worker = *workers[own];
            const auto& ends = worker.blocks[block[own]++];
            for (; fresh[own] < ends.fresh; ++fresh[own]) worker.resolved.push_back(number_of(worker, worker.fresh[fresh[own]]));
            for (; owed[own] < ends.owed; ++owed[own]) keep(worker, worker.owed[owed[own]]);
        }
        for (auto& worker : workers) {
            if (worker->fresh_table.used) worker->fresh_table.empty(Table::LEAST);
            worker->fresh.clear();
            worker->fresh_rows.clear();
            worker->owed.clear();
            worker->blocks.clear();
        }
    }
    size_t number_of(const Worker& worker, const Worker::Fresh& fresh) {
        const Row row{worker.fresh_rows.data() + fresh.begin, fresh.size};
        const size_t found = workers.size() > 1 ? known.find(row, fresh.hash) : SIZE_MAX;
        if (found != SIZE_MAX) return found;
        found_by.push_back(fresh.at);
        return known.add(row, fresh.hash);
    }
    void keep(const Worker& worker, const Owed& step) {
        const uint64_t label = labels.of(worker.labels.texts[step.label - 1]);
        owe({owners.number_at(step.source), owners.label(label), worker.settled(step.target), step.move});
    }
    void owe(const Owed& step) {
        owed_sources.push_back(step.source);
        owed_moves.push_back(step.move);
        owed_labels.push_back(step.label);
        owed_targets.push_back(step.target);
    }
    void absorb(const uint8_t* in, size_t size) {  // what others sent
        for (const uint8_t* end = in + size; in < end;) {
            const Int at = take<Int>(in), label = take<Int>(in);
            const auto length = uint32_t(take<Int>(in));
            const Row row{in, length};
            in += length;
            const uint64_t hash = hashed(row.data, row.size);
            size_t place = known.find(row, hash);
            if (place == SIZE_MAX) {
                place = known.add(row, hash);
                found_by.push_back(at);
            } else found_at(place, at);
            if (label) owe({uint64_t(at / MOVES), uint64_t(label), place, uint16_t(at % MOVES)});
        }
    }
    void order() {  // the new states get the places in which the first steps to them come
        std::vector<size_t> order(known.size() - level_end), now(order.size());
        std::iota(order.begin(), order.end(), level_end);
        std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return found_by[a] < found_by[b]; });
        std::vector<Int> at;
        for (size_t i = 0; i < order.size(); ++i) { at.push_back(found_by[order[i]]); now[order[i] - level_end] = level_end + i; }
        known.rearrange(level_end, order);
        std::copy(at.begin(), at.end(), found_by.begin() + Int(level_end));
        for (size_t i = owed_numbered; i < owed_targets.size(); ++i) if (owed_targets[i] >= level_end) owed_targets[i] = now[owed_targets[i] - level_end];
        for (auto& worker : workers) worker->remembered.forget();
        owners.forget();
    }
    void take_numbers(const uint64_t* numbers, size_t count) {  // of the new states, in their order
        owners.numbers.insert(owners.numbers.end(), numbers, numbers + count);
        for (; owed_numbered < owed_targets.size(); ++owed_numbered) owed_targets[owed_numbered] = owners.numbers[owed_targets[owed_numbered]];
    }
    size_t place_of(uint64_t number) const {
        if (!owners.several()) return number < known.size() ? number : SIZE_MAX;
        const auto found = std::lower_bound(owners.numbers.begin(), owners.numbers.end(), number);
        return found != owners.numbers.end() && *found == number ? size_t(found - owners.numbers.begin()) : SIZE_MAX;
    }
    void settle() {
        level_begin = level_end;
        level_end = known.size();
        expanded = level_begin;
        if (liveness) pending.resize(known.size(), 0);
        const double no_limit = 1e6;
        shared((level_end - level_begin + JUDGED_BLOCK - 1) / JUDGED_BLOCK, no_limit, [&](Worker& worker, size_t block) {
            const size_t first = level_begin + block * JUDGED_BLOCK, last = std::min(level_end, first + JUDGED_BLOCK);
            for (size_t place = first; place < last; ++place) worker.judge(place);
        });
    }
};

}  // namespace cp

#include "interface.hpp"
#include "lassos.hpp"
