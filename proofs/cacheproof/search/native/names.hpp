// Canonical forms: ranks by their numbers, and the least of all renamings of exchangeable names.
#pragma once
#include "runtime.hpp"

namespace cp {

// Ranks ------------------------------------------------------------------------------------------------------------------

struct Ranks {  // for each sort the ranks that occur, and then their numbers
    struct Numbered { Int rank, number; };
    Builder<Numbered>* of;
    size_t sorts;
    explicit CP_DEVICE Ranks(size_t count) : of(room<Builder<Numbered>>(Int(count))), sorts(count) { for (size_t i = 0; i < count; ++i) of[i] = {}; }
    CP_DEVICE void add(size_t sort, Int rank) { of[sort].add({rank, 0}); }
    CP_DEVICE CP_APART void settle() {
        for (size_t sort = 0; sort < sorts; ++sort) {
            auto& ranks = of[sort];
            order_freely(ranks.p, ranks.p + ranks.n, [](const Numbered& x, const Numbered& y) { return x.rank < y.rank; });
            Int before = 0, number = 0;
            for (Int i = 0; i < ranks.n; ++i) {
                if (i) number += min_of<Int>(ranks.p[i].rank - before, 2);
                ranks.p[i].number = number;
                before = ranks.p[i].rank;
            }
        }
    }
    CP_DEVICE Int number(size_t sort, Int rank) const { for (Int i = 0; i < of[sort].n; ++i) if (of[sort].p[i].rank == rank) return of[sort].p[i].number; fail("a rank that was not collected"); }
};

// Names ------------------------------------------------------------------------------------------------------------------

// What is said of a name without any name is a row of numbers. Nested tuples end with CLOSED, so that rows are in the order
// in which the tuples would be.
constexpr Int CLOSED = INT64_MIN;

constexpr Int MANY_WORDS = 128;
struct Slice { Int begin, size; };

struct Trail {  // the way to the part of a state that is looked at; whoever goes deeper comes back to its mark
    Builder<Int> words;
    CP_DEVICE Trail() { words.grow(MANY_WORDS); }
    CP_DEVICE Int mark() const { return words.n; }
    CP_DEVICE void back(Int mark) { words.n = mark; }
    CP_DEVICE void leaf(Int value) { words.add(value); }
    CP_DEVICE void close() { words.add(Int(CLOSED)); }
    // The parts that begin at these marks, the last one ending here, are put in order.
    CP_DEVICE CP_APART void sort(Int from, Builder<Int>& marks) {
        if (marks.n < 2) return;
        const Seq<Int> old = copied(Seq<Int>{words.p + from, words.n - from});
        Slice* parts = room<Slice>(marks.n);
        for (Int i = 0; i < marks.n; ++i) parts[i] = {marks.p[i] - from, (i + 1 < marks.n ? marks.p[i + 1] : words.n) - marks.p[i]};
        order_stably(parts, parts + marks.n, [&](const Slice& a, const Slice& b) { return less(Seq<Int>{old.p + a.begin, a.size}, Seq<Int>{old.p + b.begin, b.size}); });
        Int* out = words.p + from;
        for (Int i = 0; i < marks.n; ++i) out = copy_items(old.p + parts[i].begin, old.p + parts[i].begin + parts[i].size, out);
    }
};

struct Names {  // where each name goes; a sort that is not there stays
    Seq<Seq<Int>> to;
    CP_DEVICE Int of(size_t sort, Int name) const { return name >= 0 ? place(sort, name) : name; }
    CP_DEVICE Int place(size_t sort, Int name) const { const Seq<Int>& own = to.p[sort]; return own.n ? own.at(name) : name; }
};

struct Colours {
    Seq<Seq<Int>> of_sort;  // empty where the names of a sort are not exchanged
    CP_DEVICE bool active(size_t sort) const { return of_sort.p[sort].n != 0; }
    CP_DEVICE Int of(size_t sort, Int name) const { return of_sort.p[sort].at(name); }
    CP_DEVICE CP_APART void erase(size_t sort, Int name, Trail& trail) const {
        const Seq<Int>& own = of_sort.p[sort];
        if (!own.n) { trail.leaf(name); return; }
        const bool known = 0 <= name && name < own.n;
        trail.leaf(known ? 0 : 1);
        trail.leaf(known ? own.p[name] : name);
        trail.close();
    }
};

struct Signatures {  // by sort and name: where it occurs
    const Colours& colours;
    Builder<Int> words;
    Seq<Builder<Slice>*> paths;
    explicit CP_DEVICE Signatures(const Colours& known) : colours(known) {
        auto** made = room<Builder<Slice>*>(known.of_sort.n);
        for (Int sort = 0; sort < known.of_sort.n; ++sort) {
            const Int count = known.of_sort.p[sort].n;
            made[sort] = room<Builder<Slice>>(count);
            for (Int name = 0; name < count; ++name) made[sort][name] = Builder<Slice>{};
        }
        paths = {made, known.of_sort.n};
        words.grow(MANY_WORDS);
    }
    CP_DEVICE CP_APART void note(size_t sort, Int name, Int place, const Trail& trail) {
        if (name < 0 || name >= colours.of_sort.p[sort].n) return;
        const Int begin = words.n;
        words.add(place);
        words.add_all(trail.words.seq());
        paths.p[sort][name].add({begin, words.n - begin});
    }
    CP_DEVICE Seq<Int> row(const Slice& slice) const { return {words.p + slice.begin, slice.size}; }
    CP_DEVICE CP_APART void sort() {
        for (Int sort = 0; sort < paths.n; ++sort)
            for (Int name = 0; name < colours.of_sort.p[sort].n; ++name) {
                auto& own = paths.p[sort][name];
                if (own.n > 1) order_freely(own.p, own.p + own.n, [&](const Slice& a, const Slice& b) { return less(row(a), row(b)); });
            }
    }
    CP_DEVICE bool nowhere(size_t sort, Int name) const { return paths.p[sort][name].n == 0; }
    CP_DEVICE CP_APART int compared(size_t sort, Int a, Int b) const {
        const auto &x = paths.p[sort][a], &y = paths.p[sort][b];
        for (Int i = 0; i < x.n && i < y.n; ++i) {
            if (less(row(x.p[i]), row(y.p[i]))) return -1;
            if (less(row(y.p[i]), row(x.p[i]))) return 1;
        }
        return x.n < y.n ? -1 : x.n > y.n;
    }
};

using Classes = Seq<Seq<Seq<Int>>>;  // by sort: groups of names that may be exchanged

inline CP_DEVICE CP_APART Seq<Seq<Int>> groups_of(const Int* groups, Int size) {  // group by group, each with its length before it
    Builder<Seq<Int>> made;
    for (Int at = 0; at < size; at += groups[at] + 1) made.add(copied(Seq<Int>{groups + at + 1, groups[at]}));
    return made.seq();
}

// The names of a class in the order of their signatures; `ends` says where those of one signature end.
struct Group { size_t sort; Seq<Int> members, names, ends; };

template <class State> struct Symmetry {
    Classes classes;
    Colours first;
    static constexpr double FEW = 6;

    struct Grouped { Seq<Group> groups; double candidates; Colours colours; };

    CP_DEVICE CP_APART Grouped grouped(const State& state, Colours colours, bool by_colour) const {
        while (true) {
            Signatures found(colours);
            Trail trail;
            scan_root(state, trail, found);
            found.sort();
            Grouped made{{}, 1, colours};
            Builder<Group> groups;
            for (size_t sort = 0; sort < size_t(classes.n); ++sort) {
                if (!colours.active(sort)) continue;
                for (const auto& members : classes.p[sort]) groups.add(parted(sort, members, found, by_colour, made.candidates));
            }
            made.groups = groups.seq();
            if (made.candidates <= FEW) return made;
            Builder<Seq<Int>> finer;
            bool same = true;
            for (size_t sort = 0; sort < size_t(classes.n); ++sort) {
                finer.add(colours.active(sort) ? refined(sort, found) : Seq<Int>{});
                same = same && distinct(finer.p[sort]) == distinct(colours.of_sort.p[sort]);
            }
            if (same) return made;
            colours = {finer.seq()};
        }
    }
    static CP_DEVICE Int distinct(Seq<Int> all) { return Set<Int>::of(all).n; }
    static CP_DEVICE CP_APART Seq<Int> refined(size_t sort, const Signatures& found) {
        const Seq<Int> colours = found.colours.of_sort.p[sort];
        auto before = [&](Int a, Int b) { return colours.p[a] != colours.p[b] ? colours.p[a] < colours.p[b] : found.compared(sort, a, b) < 0; };
        const Seq<Int> order = range(colours.n);
        order_stably(const_cast<Int*>(order.p), const_cast<Int*>(order.p) + order.n, before);
        Int* ranks = room<Int>(colours.n);
        for (Int i = order.n; i-- > 0;) ranks[order.p[i]] = i + 1 < order.n && !before(order.p[i], order.p[i + 1]) ? ranks[order.p[i + 1]] : i;
        return {ranks, colours.n};
    }
    static CP_DEVICE CP_APART Group parted(size_t sort, Seq<Int> members, const Signatures& found, bool by_colour, double& candidates) {
        auto key = [&](Int a, Int b) {
            const bool none_a = found.nowhere(sort, a), none_b = found.nowhere(sort, b);
            if (none_a != none_b) return none_b ? -1 : 1;
            if (by_colour) { const Int x = found.colours.of(sort, a), y = found.colours.of(sort, b); if (x != y) return x < y ? -1 : 1; }
            return found.compared(sort, a, b);
        };
        const Seq<Int> names = copied(members);
        Int* own = const_cast<Int*>(names.p);
        for (Int i = 1; i < names.n; ++i) for (Int j = i; j > 0 && key(own[j], own[j - 1]) < 0; --j) exchange(own[j], own[j - 1]);
        Builder<Int> ends;
        Int equal = 1;
        for (Int i = 0; i < names.n; ++i) {
            const bool together = i + 1 < names.n && !found.nowhere(sort, own[i + 1]) && key(own[i + 1], own[i]) == 0;
            if (together) candidates *= double(++equal);
            else { ends.add(i + 1); equal = 1; }
        }
        return {sort, members, names, ends.seq()};
    }
    CP_DEVICE CP_APART State renamed(const State& state, Seq<Group> groups) const {
        auto* to = room<Seq<Int>>(first.of_sort.n);
        for (Int sort = 0; sort < first.of_sort.n; ++sort) to[sort] = range(first.of_sort.p[sort].n);
        bool moved = false;
        for (const Group& each : groups)
            for (Int at = 0; at < each.names.n; ++at) {
                const Int old = each.names.p[at], now = each.members.p[at];
                const_cast<Int*>(to[each.sort].p)[old] = now;
                moved = moved || old != now;
            }
        return moved ? rename_root(state, Names{{to, first.of_sort.n}}) : state;
    }
    CP_DEVICE CP_APART void try_orders(const State& state, Seq<Group> groups, Int group, Int part, State& best, bool& any) const {
        if (group == groups.n) {
            const State made = renamed(state, groups);
            if (!any || less(made, best)) { best = made; any = true; }
            return;
        }
        const Group& own = groups.p[group];
        if (part == own.ends.n) { try_orders(state, groups, group + 1, 0, best, any); return; }
        Int* low = const_cast<Int*>(own.names.p) + (part ? own.ends.p[part - 1] : 0);
        Int* high = const_cast<Int*>(own.names.p) + own.ends.p[part];
        if (high - low == 1) { try_orders(state, groups, group, part + 1, best, any); return; }
        const Seq<Int> before = copied(Seq<Int>{low, high - low});
        order_freely(low, high, Before<Int>{});
        do { try_orders(state, groups, group, part + 1, best, any); } while (next_order(low, high));
        copy_items(before.begin(), before.end(), low);
    }
    CP_DEVICE CP_APART void told_apart(const State& state, const Colours& colours, State& best, bool& any) const {
        const Grouped made = grouped(state, colours, true);
        if (made.candidates <= FEW) { try_orders(state, made.groups, 0, 0, best, any); return; }
        for (const Group& group : made.groups)
            for (Int part = 0; part < group.ends.n; ++part) {
                const Int low = part ? group.ends.p[part - 1] : 0, high = group.ends.p[part];
                if (high - low < 2) continue;
                for (Int at = low; at < high; ++at) {
                    const Seq<Seq<Int>> marked = copied(made.colours.of_sort);
                    const Seq<Int> own = copied(marked.p[group.sort]);
                    for (Int i = 0; i < own.n; ++i) const_cast<Int*>(own.p)[i] *= 2;
                    const_cast<Int*>(own.p)[group.names.p[at]] -= 1;
                    const_cast<Seq<Int>*>(marked.p)[group.sort] = own;
                    told_apart(state, {marked}, best, any);
                }
                return;
            }
    }
    CP_DEVICE CP_APART State least(const State& state) const {
        const Grouped made = grouped(state, first, false);
        if (made.candidates == 1) return renamed(state, made.groups);
        State best{};
        bool any = false;
        if (made.candidates <= FEW) try_orders(state, made.groups, 0, 0, best, any);
        else told_apart(state, made.colours, best, any);
        return best;
    }
};

}  // namespace cp
