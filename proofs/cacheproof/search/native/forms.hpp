// Several forms of functions in one unit: the number of the one in force (0: the specification as it stands), a bound on
// the turns of a call's loops, because a changed function may not end, and the comparison of all forms in each call.
#pragma once
#include "runtime.hpp"

namespace cp {

constexpr Int MOST_TURNS = 10'000'000, MOST_TURNS_COMPARED = 10'000;
static thread_local Int form_now = 0, turns = 0, most_turns = MOST_TURNS;
static thread_local bool comparing = false;
static void turn() { if (++turns > most_turns) fail("a call does not return"); }

// Note the forms of a function that give something else than the original, which made `made` of the same arguments.
template <class T, class F> void compare(const T& made, std::initializer_list<Int> forms, bool* differs, F&& give) {
    const Int before = turns;
    comparing = false;
    most_turns = MOST_TURNS_COMPARED;
    for (const Int form : forms) {
        if (differs[form]) continue;
        form_now = form;
        turns = 0;
        try { differs[form] = !eq(give(form), made); }
        catch (const Failure&) { differs[form] = true; }
    }
    form_now = 0;
    turns = before;
    most_turns = MOST_TURNS;
    comparing = true;
}

}  // namespace cp
