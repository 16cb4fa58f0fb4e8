// Two forms of a variant, driven alike: the same operations in pairs of states, compared after every step.
#pragma once
#include "forms.hpp"
#include "explorer.hpp"
#include <string>
#include <unordered_set>

namespace cp {

enum class Alike { YES, NO, OPEN };

struct Pairs {
    Explorer& search;
    const Int form;
    const size_t most;  // pairs of two states
    const Int depth;  // of the scope; -1: no bound
    std::unordered_set<std::string> known;
    std::vector<const std::string*> level, next_level;
    size_t differing = 0;
    Bytes raw;

    struct Took { Op op; MovedT moved; };

    Seq<Took> moves(const StateT& state, Int which) {
        form_now = which;
        const Opt<Op> next = continuation_of(search.config, state);
        const Seq<Op> offered = next.has ? Seq<Op>{&next.value, 1} : alphabet_of(search.config, state);
        Builder<Took> made;
        for (const Op& op : offered) {
            if (!next.has && !supported(op.tag)) continue;
            made.add({op, search.whole_calls && !next.has ? search.workers[0]->call(state, op) : step_of(search.config, state, op)});
        }
        form_now = 0;
        return made.seq();
    }
    bool alike(const Took& one, const Took& other) {
        if (!eq(one.op, other.op) || !eq(one.moved.f1, other.moved.f1)) return false;
        return eq(one.moved.f0, other.moved.f0) || eq(view_of(search.config, one.moved.f0), view_of(search.config, other.moved.f0));
    }
    // A pair of one and the same state stands for all that are like it; other pairs are taken as they are.
    void meet(const StateT& one, const StateT& other) {
        const bool same = eq(one, other);
        raw.clear();
        put(raw, same);
        if (same) put(raw, search.canonical(one));
        else { put(raw, one); put(raw, other); }
        const auto [at, is_new] = known.emplace(reinterpret_cast<const char*>(raw.data()), raw.size());
        if (!is_new) return;
        differing += !same;
        next_level.push_back(&*at);
    }
    Alike run(const StateT& start) {
        meet(start, start);
        for (Int reached = 0; !next_level.empty() && reached != depth; ++reached) {
            level.swap(next_level);
            next_level.clear();
            for (const std::string* each : level) {
                if (differing >= most) return Alike::OPEN;
                if (!take_both(reinterpret_cast<const uint8_t*>(each->data()))) return Alike::NO;
            }
        }
        return Alike::YES;
    }
    bool take_both(const uint8_t* in) {
        context->arena->clear();
        const bool same = take<bool>(in);
        const StateT one = take<StateT>(in), other = same ? one : take<StateT>(in);
        const Seq<Took> ours = moves(one, 0), theirs = moves(other, form);
        if (ours.n != theirs.n) return false;
        for (Int i = 0; i < ours.n; ++i) if (!alike(ours.p[i], theirs.p[i])) return false;
        for (Int i = 0; i < ours.n; ++i) meet(ours.p[i].moved.f0, theirs.p[i].moved.f0);
        return true;
    }
};

}  // namespace cp

extern "C" {
// Whether the forms are compared in each call of the original, and whether one has differed since that began.
void cp_compare(int wanted) { cp::comparing = wanted; if (wanted) for (bool& each : cp::differs) each = false; }
int cp_differs(Int form) { return cp::differs[form]; }
void cp_choose(Int form) { cp::form_now = form; }
// 0: nothing tells the form from the original, 1: something does, 2: too many pairs, 3: the run failed
int cp_alike(Explorer* search, const uint8_t* start, Int form, uint64_t most, Int depth) {
    int found = 3;
    cp::guarded(search, [&] {
        search->shared(1, 0.0, [&](cp::Worker&, size_t) {
            const uint8_t* in = start;
            const Int before = std::exchange(cp::form_now, 0);
            const cp::StateT first = cp::copy(cp::take<cp::StateT>(in));
            cp::Pairs pairs{*search, form, most, depth, {}, {}, {}, 0, {}};
            found = int(pairs.run(first));
            cp::form_now = before;
        });
    });
    return found;
}
}
