// Random changes of several versions of a map and a queue, beside plain vectors; and tuples that grow. 1: they agree.
#define CP_FOLLOWING
#include "lines.hpp"
#include <random>

namespace cp {
using M = Map<Int, Int>;
using Q = Queue<Int>;
struct Both { M map; Q queue; std::vector<std::pair<Int, Int>> pairs, line; };  // and what they hold, plainly

static bool same(const Both& a, const std::vector<Int>& asked) {
    Int sum = 0, weights = 0;
    for (const auto& each : a.pairs) sum += each.second;
    for (const auto& each : a.line) weights += each.second;
    if (a.map.size() != Int(a.pairs.size()) || a.map.total() != sum) return false;
    if (a.queue.size() != Int(a.line.size()) || a.queue.total() != weights) return false;
    auto sorted = a.pairs;
    std::sort(sorted.begin(), sorted.end());
    const auto pairs = pairs_of(a.map);
    for (size_t i = 0; i < sorted.size(); ++i) if (pairs.p[i].key != sorted[i].first || pairs.p[i].value != sorted[i].second) return false;
    const auto all = items_in(a.queue);
    for (size_t i = 0; i < a.line.size(); ++i) if (all.p[i].key != a.line[i].first || all.p[i].weight != a.line[i].second) return false;
    if (a.queue.oldest(-7) != (a.line.empty() ? -7 : a.line[0].first)) return false;
    Int outside = -7;
    for (const auto& each : a.line) if (!a.map.has(each.first)) { outside = each.first; break; }
    if (a.queue.oldest_outside(a.map, -7) != outside) return false;
    for (const Int key : asked) {
        Int value = -7, weight = -7;
        for (const auto& each : a.pairs) if (each.first == key) value = each.second;
        for (const auto& each : a.line) if (each.first == key) weight = each.second;
        if (a.map.get(key, -7) != value || a.map.has(key) != (value != -7)) return false;
        if (a.queue.weight(key, -7) != weight || a.queue.has(key) != (weight != -7)) return false;
    }
    return true;
}
static void drop(std::vector<std::pair<Int, Int>>& from, Int key) {
    from.erase(std::remove_if(from.begin(), from.end(), [&](const auto& each) { return each.first == key; }), from.end());
}
static bool walked(unsigned seed, int steps, int names, int versions) {
    std::mt19937 chosen(seed);
    const auto below = [&](int most) { return Int(chosen() % unsigned(most)); };
    std::vector<Both> kept(1);
    for (int step = 0; step < steps; ++step) {
        Both next = kept[below(8) ? kept.size() - 1 : size_t(below(int(kept.size())))];
        const Int key = below(names), value = below(1000);
        switch (below(6)) {
            case 0: case 1: drop(next.pairs, key); next.pairs.push_back({key, value}); next.map = next.map.set(key, value); break;
            case 2: drop(next.pairs, key); next.map = next.map.remove(key); break;
            case 3: drop(next.line, key); next.line.push_back({key, value}); next.queue = next.queue.push(key, value); break;
            case 4: drop(next.line, key); next.line.insert(next.line.begin(), {key, value}); next.queue = next.queue.push_front(key, value); break;
            case 5: drop(next.line, key); next.queue = next.queue.remove(key); break;
        }
        if (!below(50)) { next.map = copy(next.map); next.queue = copy(next.queue); }
        if (kept.size() == size_t(versions)) kept.erase(kept.begin() + below(versions - 1));
        kept.push_back(next);
        if (!same(kept.back(), {key, below(names)}) || !same(kept[size_t(below(int(kept.size())))], {key, below(names)})) return false;
        const Both& other = kept[size_t(below(int(kept.size())))];
        auto mine = next.pairs, theirs = other.pairs;
        std::sort(mine.begin(), mine.end());
        std::sort(theirs.begin(), theirs.end());
        if (eq(next.map, other.map) != (mine == theirs) || eq(next.queue, other.queue) != (next.line == other.line)) return false;
        if (less(next.map, other.map) != (mine < theirs) || less(next.queue, other.queue) != (next.line < other.line)) return false;
    }
    return true;
}
// Tuples that grow by one element: each keeps what it had.
static bool grown(unsigned seed, int steps) {
    std::mt19937 chosen(seed);
    std::vector<std::pair<Seq<Int>, std::vector<Int>>> kept(1);
    for (int step = 0; step < steps; ++step) {
        const auto from = kept[chosen() % 4 ? kept.size() - 1 : chosen() % kept.size()];
        const Int added = Int(chosen() % 100);
        Builder<Int> made;
        made.add_all(from.first);
        made.add(added);
        kept.push_back({made.seq(), from.second});
        kept.back().second.push_back(added);
    }
    for (const auto& each : kept) {
        if (each.first.n != Int(each.second.size())) return false;
        for (size_t i = 0; i < each.second.size(); ++i) if (each.first.p[i] != each.second[i]) return false;
    }
    return true;
}
}

extern "C" int agree(unsigned seed, int steps, int names, int versions) { return cp::walked(seed, steps, names, versions); }
extern "C" int grow(unsigned seed, int steps) { return cp::grown(seed, steps); }
