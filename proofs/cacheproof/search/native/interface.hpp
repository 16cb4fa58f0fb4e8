// What Python asks of the search: functions with names that are not mangled. `explorer.hpp` includes it.
#pragma once
#include "explorer.hpp"

namespace cp {

template <class F> int guarded(Explorer* search, F&& work) {
    try { work(); return 0; }
    catch (const std::exception& error) { context = &main_context; main_context.arena = &main_passing; search->error = error.what(); return 1; }
}

}  // namespace cp

extern "C" {
using cp::Explorer;
using cp::Int;

Explorer* cp_new(const uint8_t* config, int whole_calls, int liveness, int threads) {
    auto* made = new Explorer();
    cp::context->lasting = &made->lasting_of_config;
    const cp::Lasting here;
    made->config = cp::take<cp::ConfigT>(config);
    made->whole_calls = whole_calls;
    made->liveness = liveness;
    made->symmetry.classes = cp::copied(cp::repeated(cp::seq_of<cp::Seq<cp::Seq<Int>>>({{}}), Int(cp::SORTS)));
    made->symmetry.first.of_sort = cp::copied(cp::repeated(cp::seq_of<cp::Seq<Int>>({{}}), Int(cp::SORTS)));
    for (int own = 0; own < threads; ++own) made->workers.push_back(std::make_unique<cp::Worker>(*made));
    if (threads > 1) made->threads = std::make_unique<cp::Threads>(size_t(threads));
    cp::context->lasting = &cp::main_lasting;
    return made;
}
void cp_free(Explorer* search) { delete search; }
// Names of a sort: `colours` has one for each name; `group` names follow, group by group, each with its length.
void cp_exchange(Explorer* search, int sort, const Int* colours, Int count, const Int* groups, Int size) {
    search->exchanges = true;
    cp::context->lasting = &search->lasting_of_config;
    const cp::Lasting here;
    cp::context->lasting = &cp::main_lasting;
    const_cast<cp::Seq<Int>*>(search->symmetry.first.of_sort.p)[sort] = cp::copied(cp::Seq<Int>{colours, count});
    const_cast<cp::Seq<cp::Seq<Int>>*>(search->symmetry.classes.p)[sort] = cp::groups_of(groups, size);
}
int cp_begin(Explorer* search, const uint8_t* state) { return cp::guarded(search, [&] { search->begin(state); }); }
int cp_expand(Explorer* search, uint64_t most, double seconds) { return cp::guarded(search, [&] { search->expand(most, seconds); }); }
// Several processes: which of them this one is, what it sends to each in a slice, what it is sent, and numbers of its states.
void cp_share(Explorer* search, uint64_t place, uint64_t owners) { search->owners.share(place, owners); }
const uint8_t* cp_outgoing(Explorer* search, uint64_t owner) { return search->owners.out[owner].data(); }
uint64_t cp_outgoing_size(Explorer* search, uint64_t owner) { return search->owners.out[owner].size(); }
int cp_absorb(Explorer* search, const uint8_t* in, uint64_t size) { return cp::guarded(search, [&] { search->absorb(in, size); }); }
int cp_order(Explorer* search) { return cp::guarded(search, [&] { search->order(); }); }
void cp_number(Explorer* search, const uint64_t* numbers, uint64_t count) { search->take_numbers(numbers, count); }
const uint64_t* cp_numbers(Explorer* search) { return search->owners.numbers.data(); }
uint64_t cp_place(Explorer* search, uint64_t number) { return search->place_of(number); }
int cp_settle(Explorer* search) { return cp::guarded(search, [&] { search->settle(); }); }
const char* cp_error(Explorer* search) { return search->error.c_str(); }
// 0 states, 1 transitions, 2 digest, 3 level begin, 4 level end, 5 expanded, 6 bytes, 7 owed steps, 8 labels
uint64_t cp_count(Explorer* search, int what) {
    switch (what) {
        case 0: return search->known.size();
        case 1: return uint64_t(search->tally.transitions);
        case 2: return search->tally.digest;
        case 3: return search->level_begin;
        case 4: return search->level_end;
        case 5: return search->expanded;
        case 6: return search->known.bytes();
        case 7: return search->owed_sources.size();
        case 8: return search->labels.texts.size();
    }
    return 0;
}
const Int* cp_found_by(Explorer* search) { return search->found_by.data(); }
const uint64_t* cp_pending(Explorer* search) { return search->pending.data(); }
const Int* cp_broken(Explorer* search, int steps) { return steps ? search->tally.broken_step.data() : search->tally.broken_safety.data(); }
const char* cp_seen(Explorer* search, int what) { return what == 0 ? search->tally.seen_safety.data() : what == 1 ? search->tally.seen_step.data() : search->tally.seen_progress.data(); }
const Int* cp_coverage(Explorer* search) { return search->tally.coverage.data(); }
const uint64_t* cp_owed(Explorer* search, int what) { return what == 0 ? search->owed_sources.data() : what == 1 ? search->owed_labels.data() : search->owed_targets.data(); }
const uint16_t* cp_owed_moves(Explorer* search) { return search->owed_moves.data(); }
const char* cp_operation(Explorer* search, uint64_t label) { return search->labels.texts[label - 1].c_str(); }
const char* cp_state(Explorer* search, uint64_t place) {
    search->text.clear();
    cp::json(search->text, search->state_at(place));
    cp::context->arena->clear();
    return search->text.c_str();
}
#ifdef CP_COUNTING
// A library that counts what runs writes its counts, once: not when the process ends, as it would otherwise.
void __gcov_dump(void);
void cp_counted() { __gcov_dump(); }
#endif
}
