// Whether something that is pending can stay so for ever under weak fairness, as `search/liveness.py` says it: a state in
// which nothing happens any more, or strongly connected states in which every operation that is enabled in all of them is
// taken inside. Python makes the trace where there is one.
#pragma once
#include "explorer.hpp"

namespace cp {

struct Lassos {
    const Explorer& search;
    const size_t whole;  // so many states were expanded
    std::vector<size_t> begin;  // by state: where its steps begin
    std::vector<uint32_t> order;  // steps, by the state that they lead from
    static constexpr uint32_t NONE = UINT32_MAX;
    std::vector<uint32_t> number, low, component, open;
    struct Visit { uint32_t state; size_t step; };
    std::vector<Visit> walk;
    std::vector<uint32_t> enabled, last, taken;  // by operation: in how many states of a component, in which one last; and in which component it is taken

    Lassos(const Explorer& all, size_t expanded) : search(all), whole(expanded), begin(expanded + 1, 0), order(all.owed_sources.size()) {
        for (const uint64_t source : all.owed_sources) if (source < whole) ++begin[source + 1];
        for (size_t state = 0; state < whole; ++state) begin[state + 1] += begin[state];
        std::vector<size_t> next(begin.begin(), begin.end() - 1);
        for (size_t step = 0; step < all.owed_sources.size(); ++step) if (all.owed_sources[step] < whole) order[next[all.owed_sources[step]]++] = uint32_t(step);
        enabled.resize(all.labels.texts.size() + 1);
        last.resize(enabled.size());
        taken.resize(enabled.size());
    }
    bool holds(int rule, size_t state) const { return state < whole && search.pending[state] >> rule & 1; }
    bool any(int rule) {
        for (size_t state = 0; state < whole; ++state) if (holds(rule, state) && begin[state] == begin[state + 1]) return true;
        number.assign(whole, NONE);
        low.assign(whole, 0);
        component.assign(whole, NONE);
        std::fill(last.begin(), last.end(), NONE);
        std::fill(taken.begin(), taken.end(), NONE);
        uint32_t numbered = 0, components = 0;
        for (size_t root = 0; root < whole; ++root) {
            if (!holds(rule, root) || number[root] != NONE) continue;
            enter(uint32_t(root), numbered);
            while (!walk.empty()) {
                Visit& now = walk.back();
                const uint32_t state = now.state;
                if (now.step < begin[state + 1]) {
                    const size_t after = search.owed_targets[order[now.step++]];
                    if (!holds(rule, after)) continue;
                    if (number[after] == NONE) enter(uint32_t(after), numbered);
                    else if (component[after] == NONE) low[state] = std::min(low[state], number[after]);
                    continue;
                }
                walk.pop_back();
                if (!walk.empty()) low[walk.back().state] = std::min(low[walk.back().state], low[state]);
                if (low[state] == number[state] && is_fair(state, components++)) return true;
            }
        }
        return false;
    }
    void enter(uint32_t state, uint32_t& numbered) {
        number[state] = low[state] = numbered++;
        open.push_back(state);
        walk.push_back({state, begin[state]});
    }
    bool is_fair(uint32_t root, uint32_t own) {  // closes the component; a run can stay in one of several states only
        size_t first = open.size();
        do component[open[--first]] = own; while (open[first] != root);
        const std::vector<uint32_t> members(open.begin() + Int(first), open.end());
        open.resize(first);
        if (members.size() == 1) return false;
        for (const uint32_t state : members) each_step(state, [&](size_t label, size_t) { enabled[label] = 0; last[label] = NONE; });
        for (const uint32_t state : members)
            each_step(state, [&](size_t label, size_t after) {
                if (last[label] != state) { last[label] = state; ++enabled[label]; }
                if (after < whole && component[after] == own) taken[label] = own;
            });
        bool fair = true;
        each_step(root, [&](size_t label, size_t) { fair = fair && (enabled[label] < members.size() || taken[label] == own); });
        return fair;
    }
    template <class F> void each_step(uint32_t state, F&& work) const {
        for (size_t at = begin[state]; at < begin[state + 1]; ++at) work(size_t(search.owed_labels[order[at]]), size_t(search.owed_targets[order[at]]));
    }
};

}  // namespace cp

extern "C" {
// Whether any property of progress can fail among the states that were expanded: 1 or 0; -1: the search failed.
int cp_lasts(Explorer* search, uint64_t whole) {
    bool found = false;
    const int failed = cp::guarded(search, [&] {
        cp::Lassos all(*search, whole);
        for (int rule = 0; rule < cp::PROGRESS && !found; ++rule) found = all.any(rule);
    });
    return failed ? -1 : int(found);
}
}
