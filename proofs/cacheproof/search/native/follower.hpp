// Follows a log, or answers calls, in compiled code. What it takes is right; of everything else it says only that it does not take it.
#pragma once
#include "lines.hpp"
#include <chrono>

namespace cp {

constexpr Int MOST_STEPS = 100'000;  // of one call: one with more is left to Python

struct Follower {
    Arena arenas[2], lasting;
    Context own{&arenas[0], &lasting, nullptr};
    int now = 0;                     // the arena in which the state lies
    size_t kept = 0;                 // bytes that the state took when it was moved last
    const Arena::Chunk* seen_chunk = nullptr;
    ConfigT config{};
    StateT state{};
    std::vector<std::vector<Int>> limits;           // by tag: the largest value of each operand, -1 for a tag that is not read
    std::vector<std::pair<std::string, int>> names;  // the observables of this configuration, each with its function, or -1
    std::vector<Int> places;                        // and its place in what the function gives, or -1
    std::vector<int> logged;                        // the observables that are logged when they change,
    std::vector<Value> known;                       // and what was logged last
    std::vector<std::vector<Int>> known_numbers;
    std::vector<uint8_t> seen = std::vector<uint8_t>(size_t(TAGS * CODES));
    std::vector<Int> answer;
    uint64_t lines = 0;              // that were taken in the last slice
    bool refused = false;            // whether the line behind them is none that is taken
    Written text;
    std::string error;

    Follower() = default;
    Follower(const Follower&) = delete;
    ~Follower() { arenas[0].free(); arenas[1].free(); lasting.free(); }

    // Memory -----------------------------------------------------------------------------------------------------------

    static size_t used(const Arena& arena) {
        size_t bytes = 0;
        for (const auto* each = arena.first; each; each = each->next) {
            if (each == arena.chunk) return bytes + size_t(arena.at - const_cast<Arena::Chunk*>(each)->begin());
            bytes += size_t(each->limit - const_cast<Arena::Chunk*>(each)->begin());
        }
        return bytes;
    }
    // Move the state to the other arena when so much has gathered in this one that moving costs little beside it.
    void tidy() {
        constexpr size_t LITTLE = size_t(2) << 20;
        if (own.arena->chunk == seen_chunk) return;
        seen_chunk = own.arena->chunk;
        if (used(*own.arena) > std::max(LITTLE, 5 * kept)) move(false);
    }
    void move(bool release) {
        Arena& old = arenas[now];
        Arena& next = arenas[1 - now];
        own.arena = &next;
        Slack::forget();
        try { state = copy(state); }
        catch (const Failure&) { next.free(); own.arena = &old; Slack::forget(); throw; }
        now = 1 - now;
        if (release) old.free(); else old.clear();
        kept = used(next);
        seen_chunk = next.chunk;
    }

    // Steps ------------------------------------------------------------------------------------------------------------

    MovedT call(const StateT& before, const Op& op) {
        turns = 0;
        MovedT moved = step_of(config, before, op);
        for (Int steps = 0;; ++steps) {
            const Opt<Op> following = continuation_of(config, moved.f0);
            if (!following.has) return moved;
            if (steps == MOST_STEPS) fail("a call of too many steps");
            moved = step_of(config, moved.f0, following.value);
        }
    }
    bool within(const CalledLine& line) const {
        const auto& most = limits[size_t(line.tag)];
        for (int i = 0; i < KINDS[line.tag].count; ++i) {
            const Int bound = most[size_t(i)];
            const Value& operand = line.operands[i];
            if (!operand.several) { if (operand.number < 0 || operand.number > bound) return false; }
            else for (const Int each : operand.numbers) if (each < 0 || each > bound) return false;
        }
        return true;
    }

    // Lines ------------------------------------------------------------------------------------------------------------

    int observable(std::string_view name) const {
        for (size_t i = 0; i < names.size(); ++i) if (names[i].first == name) return names[i].second < 0 ? -1 : int(i);
        return -1;
    }
    Value shown(const ViewT& view, int number) const { return observed(names[size_t(number)].second, places[size_t(number)], config, view); }
    bool shows(const StateT& after, const CalledLine& line) {
        const ViewT view = view_of(config, after);
        for (Int i = 0; i < line.named.n; ++i) if (!eq(shown(view, int(line.named.p[i])), line.observed.p[i])) return false;
        for (size_t i = 0; i < logged.size(); ++i) if (!line.named.view().has(logged[i]) && !eq(shown(view, logged[i]), known[i])) return false;
        return true;
    }
    void know(size_t place, const Value& value, std::vector<Int>&& numbers) {
        known_numbers[place] = std::move(numbers);
        known[place] = {value.several, value.number, {known_numbers[place].data(), Int(known_numbers[place].size())}};
    }
    bool take(const char* begin, const char* end) {
        CalledLine line;
        LineReader in{begin, end};
        turns = 0;
        if (!read_line(in, line, KINDS, TAGS, CODE_NAMES, int(CODES), [&](std::string_view name) { return observable(name); })) return false;
        if (!line.called && !line.named.n) return false;
        StateT after = state;
        if (line.called) {
            if (limits[size_t(line.tag)].empty() && KINDS[line.tag].count) return false;
            if (!within(line)) return false;
            const Op op = op_from(line.tag, line.operands);
            if (is_unknown(config, op)) return false;
            const MovedT moved = call(state, op);
            if (moved.f1.code != line.code || moved.f1.code == DIVERGED_CODE || !eq(moved.f1.values, line.values)) return false;
            after = moved.f0;
        }
        if ((line.named.n || !logged.empty()) && !shows(after, line)) return false;
        std::vector<std::pair<size_t, std::vector<Int>>> fresh;  // all memory is taken before anything changes
        std::vector<Value> values;
        for (size_t i = 0; i < logged.size(); ++i)
            for (Int j = 0; j < line.named.n; ++j) if (line.named.p[j] == logged[i]) {
                const Value& value = line.observed.p[j];
                fresh.emplace_back(i, std::vector<Int>(value.numbers.begin(), value.numbers.end()));
                values.push_back(value);
            }
        for (size_t i = 0; i < fresh.size(); ++i) know(fresh[i].first, values[i], std::move(fresh[i].second));
        if (line.called) seen[size_t(line.tag * CODES + line.code)] = 1;
        state = after;
        return true;
    }
    // How many bytes of the lines, each with its newline, are taken: up to the first line that is not, which is then `refused`, or
    // for some time.
    uint64_t follow(const char* data, uint64_t size) {
        constexpr auto LONG = std::chrono::milliseconds(200);
        const auto begin = std::chrono::steady_clock::now();
        char here;
        stack_begin = &here;
        lines = 0;
        refused = false;
        const char* at = data;
        for (const char* const end = data + size; at < end && !refused; ) {
            const char* const newline = static_cast<const char*>(std::memchr(at, '\n', size_t(end - at)));
            refused = !newline || !taken_or_not(at, newline);
            if (refused) break;
            at = newline + 1;
            ++lines;
            if (std::chrono::steady_clock::now() - begin > LONG) break;
        }
        return uint64_t(at - data);
    }
    bool taken_or_not(const char* begin, const char* end) {
        try {
            tidy();
            return take(begin, end);
        }
        catch (const std::exception&) { recover(); return false; }
    }
    void recover() {  // a call may have taken much memory, which Python needs now
        try { move(true); } catch (const Failure&) {}
    }

    // Calls ------------------------------------------------------------------------------------------------------------

    // Of an operation the tag, and behind it its operands, each array behind its length. The answer is the code, and behind it the
    // values.
    void perform(const Int* in, Int count) {
        char here;
        stack_begin = &here;
        const Int *const end = in + count;
        const auto next = [&] { if (in == end) fail("an operation without all of its operands"); return *in++; };
        const Int tag = next();
        if (tag < 0 || tag >= TAGS) fail("no such operation");
        Value operands[MOST_OPERANDS];
        for (int i = 0; i < KINDS[tag].count; ++i) {
            operands[i].several = KINDS[tag].operands[i].several;
            if (!operands[i].several) { operands[i].number = next(); continue; }
            const Int length = next();
            if (length < 0 || length > end - in) fail("an operation without all of its operands");
            operands[i].numbers = copied(Seq<Int>{in, length});
            in += length;
        }
        const Op op = op_from(tag, operands);
        const MovedT moved = call(state, op);
        if (moved.f1.code == DIVERGED_CODE) fail("a call that does not end");
        answer.assign(1, moved.f1.code);
        answer.insert(answer.end(), moved.f1.values.begin(), moved.f1.values.end());
        state = moved.f0;
        tidy();
    }
};

struct Entered {  // compiled code works in the memory of this follower as long as this lives
    Context* before = context;
    explicit Entered(Follower& follower) { context = &follower.own; Slack::forget(); }
    ~Entered() { Slack::forget(); context = before; }
};
template <class F> int attempted(Follower* follower, F&& work) {
    const Entered here(*follower);
    try { work(); return 0; }
    catch (const std::exception& error) { follower->error = error.what(); return 1; }
}

}  // namespace cp

extern "C" {
using cp::Follower;
using cp::Int;

Follower* cf_new() { return new Follower(); }
void cf_free(Follower* follower) { const cp::Entered here(*follower); delete follower; }
const char* cf_error(Follower* follower) { return follower->error.c_str(); }
int cf_configure(Follower* follower, const uint8_t* config) {
    return cp::attempted(follower, [&] {
        const cp::Lasting here;
        follower->config = cp::take<cp::ConfigT>(config);
        follower->own.root = &follower->config;
        follower->limits.resize(size_t(cp::TAGS));
    });
}
int cf_limit(Follower* follower, Int tag, const Int* most, Int count) { return cp::attempted(follower, [&] { follower->limits[size_t(tag)].assign(most, most + count); }); }
int cf_observable(Follower* follower, const char* name, int function, Int place) { return cp::attempted(follower, [&] { follower->places.push_back(place); follower->names.emplace_back(name, function); }); }
// The observable of this number is logged when it changes.
int cf_known(Follower* follower, int number, int several, const Int* numbers, Int count) {
    return cp::attempted(follower, [&] {
        follower->logged.push_back(number);
        follower->known.emplace_back();
        follower->known_numbers.emplace_back();
        follower->know(follower->known.size() - 1, {several != 0, several ? 0 : numbers[0]}, std::vector<Int>(numbers, numbers + (several ? count : 0)));
    });
}
void cf_forget_known(Follower* follower) { follower->logged.clear(); follower->known.clear(); follower->known_numbers.clear(); }
int cf_enter(Follower* follower, const uint8_t* state) {
    return cp::attempted(follower, [&] {
        follower->state = {};
        follower->arenas[0].clear();
        follower->arenas[1].clear();
        follower->seen_chunk = nullptr;
        follower->state = cp::take<cp::StateT>(state);
        follower->kept = follower->used(*follower->own.arena);
    });
}
uint64_t cf_follow(Follower* follower, const char* data, uint64_t size) { const cp::Entered here(*follower); return follower->follow(data, size); }
uint64_t cf_lines(Follower* follower) { return follower->lines; }
int cf_refused(Follower* follower) { return follower->refused; }
int cf_call(Follower* follower, const Int* operation, Int count) {
    const int failed = cp::attempted(follower, [&] { follower->perform(operation, count); });
    if (failed) { const cp::Entered here(*follower); follower->recover(); }
    return failed;
}
const Int* cf_answer(Follower* follower) { return follower->answer.data(); }
Int cf_answer_size(Follower* follower) { return Int(follower->answer.size()); }
const char* cf_state(Follower* follower) {
    follower->text.clear();
    return cp::attempted(follower, [&] { cp::json(follower->text, follower->state); follower->tidy(); }) ? nullptr : follower->text.c_str();
}
const uint8_t* cf_seen(Follower* follower) { return follower->seen.data(); }
int cf_known_several(Follower* follower, Int place) { return follower->known[size_t(place)].several; }
Int cf_known_number(Follower* follower, Int place) { return follower->known[size_t(place)].number; }
const Int* cf_known_numbers(Follower* follower, Int place) { return follower->known_numbers[size_t(place)].data(); }
Int cf_known_size(Follower* follower, Int place) { return Int(follower->known_numbers[size_t(place)].size()); }
uint64_t cf_bytes(Follower* follower) { return follower->used(follower->arenas[0]) + follower->used(follower->arenas[1]); }
}
