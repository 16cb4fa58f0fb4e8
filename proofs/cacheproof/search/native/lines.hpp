// Reads the usual line of a log: a whole call with its outcome, or observables alone. Whatever is written in another way, or is wrong,
// is left to Python.
#pragma once
#include "bytes.hpp"
#include <string_view>

namespace cp {

// Bounds on a call: a log may have any numbers, and a call with more work than this is left to Python, which looks at the clock.
constexpr Int MOST_TURNS = 100'000'000;
constexpr size_t MOST_STACK = size_t(4) << 20;
static Int turns = 0;
static const char* stack_begin = nullptr;
[[maybe_unused]] static void turn() { if (++turns > MOST_TURNS) fail("a call of too many turns"); }
[[maybe_unused, gnu::noinline]] static void deep() { char here; if (size_t(stack_begin - &here) > MOST_STACK) fail("calls within one another are too many"); }

struct LineReader {  // JSON of one line; after a false answer nothing is known
    const char *at, *end;
    void space() { while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) ++at; }
    bool eat(char wanted) { space(); if (at == end || *at != wanted) return false; ++at; return true; }
    bool is_next(char wanted) { space(); return at < end && *at == wanted; }
    bool word(std::string_view& found) {  // a string without escapes, in ASCII
        if (!eat('"')) return false;
        const char* const begin = at;
        while (at < end && *at != '"') { if (*at == '\\' || uint8_t(*at) < 0x20 || uint8_t(*at) >= 0x80) return false; ++at; }
        if (at == end) return false;
        found = {begin, size_t(at - begin)};
        ++at;
        return true;
    }
    bool text() {  // any string whose escapes and UTF-8 are beyond doubt
        if (!eat('"')) return false;
        while (at < end && *at != '"') {
            const uint8_t letter = uint8_t(*at);
            if (letter < 0x20) return false;
            if (letter == '\\') { if (!escape()) return false; }
            else if (letter < 0x80) ++at;
            else if (!wide(letter)) return false;
        }
        if (at == end) return false;
        ++at;
        return true;
    }
    bool escape() {
        if (end - at < 2) return false;
        const char kind = at[1];
        at += 2;
        if (kind != 'u') return kind != 0 && std::strchr("\"\\/bfnrt", kind) != nullptr;
        if (end - at < 4) return false;
        for (int i = 0; i < 4; ++i, ++at) {
            const char c = *at;
            const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
            if (digit < 0) return false;
        }
        return true;
    }
    bool wide(uint8_t first) {
        const int more = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe1 && first <= 0xec ? 2 : first >= 0xf1 && first <= 0xf3 ? 3 : 0;
        if (!more || end - at <= more) return false;
        for (int i = 1; i <= more; ++i) if ((uint8_t(at[i]) & 0xc0) != 0x80) return false;
        at += more + 1;
        return true;
    }
    bool number(Int& found) {
        space();
        const bool negative = at < end && *at == '-';
        if (negative) ++at;
        const char* const begin = at;
        uint64_t value = 0;
        constexpr int MOST_DIGITS = 19;
        while (at < end && uint8_t(*at - '0') < 10) { if (at - begin == MOST_DIGITS) return false; value = value * 10 + uint64_t(*at++ - '0'); }
        if (at == begin || (*begin == '0' && (at - begin > 1 || negative)) || value > uint64_t(INT64_MAX)) return false;
        found = negative ? -Int(value) : Int(value);
        return true;
    }
    bool numbers(Seq<Int>& found) {
        if (!eat('[')) return false;
        Builder<Int> made;
        if (!is_next(']')) {
            do { Int each; if (!number(each)) return false; made.add(each); } while (eat(','));
        }
        found = made.seq();
        return eat(']');
    }
    // The members of an object: `member` reads the value of a key, or says false.
    template <class F> bool object(F&& member) {
        if (!eat('{')) return false;
        if (is_next('}')) { ++at; return true; }
        do { std::string_view key; if (!word(key) || !eat(':') || !member(key)) return false; } while (eat(','));
        return eat('}');
    }
};

struct Value { bool several = false; Int number = 0; Seq<Int> numbers{}; };  // of an operand or an observable
inline bool eq(const Value& a, const Value& b) { return a.several == b.several && (a.several ? eq(a.numbers, b.numbers) : a.number == b.number); }
inline bool read(LineReader& in, Value& value) {
    value.several = in.is_next('[');
    return value.several ? in.numbers(value.numbers) : in.number(value.number);
}

struct Operand { std::string_view name; bool several; };
struct Kind { std::string_view name; const Operand* operands; int count; };  // of operations

constexpr int MOST_OPERANDS = 16;

struct CalledLine {  // what a line says
    bool called = false, answered = false;
    Int tag = -1, code = -1;
    Value operands[MOST_OPERANDS];
    Seq<Int> values{};
    Builder<Int> named{};      // the observables that it shows, by their numbers, and what it shows of each
    Builder<Value> observed{};
};

inline int found_in(std::string_view key, const std::string_view* names, int count) {
    for (int i = 0; i < count; ++i) if (names[i] == key) return i;
    return -1;
}

// `kinds` are the operations by their tags, `codes` the codes in their order, `observable` the number of an observable or -1.
template <class F> bool read_line(LineReader& in, CalledLine& line, const Kind* kinds, int tags, const std::string_view* codes, int code_count, F&& observable) {
    bool shown = false, sourced = false;
    const auto operation = [&] {
        LineReader ahead = in;  // the name of the operation may come behind operands: it is looked for first
        ahead.object([&](std::string_view key) {
            std::string_view name;
            Value skipped;
            if (key != "op") return read(ahead, skipped);
            if (ahead.word(name)) for (int i = 0; i < tags; ++i) if (kinds[i].name == name) line.tag = i;
            return false;
        });
        if (line.tag < 0) return false;
        const Kind& kind = kinds[line.tag];
        unsigned seen = 0;
        bool named = false;
        return in.object([&](std::string_view key) {
            std::string_view name;
            if (key == "op") { if (named) return false; named = true; return in.word(name); }
            for (int i = 0; i < kind.count; ++i) {
                if (kind.operands[i].name != key) continue;
                if (seen >> i & 1) return false;
                seen |= 1u << i;
                return read(in, line.operands[i]) && line.operands[i].several == kind.operands[i].several;
            }
            return false;
        }) && seen == (1u << kind.count) - 1;
    };
    const auto outcome = [&] {
        bool valued = false;
        return in.object([&](std::string_view key) {
            std::string_view name;
            if (key == "code") { if (line.code >= 0 || !in.word(name)) return false; line.code = found_in(name, codes, code_count); return line.code >= 0; }
            if (key == "values" && !valued) { valued = true; return in.numbers(line.values); }
            return false;
        }) && line.code >= 0;
    };
    const auto observations = [&] {
        return in.object([&](std::string_view key) {
            const int number = observable(key);
            Value value;
            if (number < 0 || line.named.view().has(number) || !read(in, value)) return false;
            line.named.add(number);
            line.observed.add(value);
            return true;
        });
    };
    const bool whole = in.object([&](std::string_view key) {
        if (key == "operation") { if (line.called) return false; line.called = true; return operation(); }
        if (key == "outcome") { if (line.answered) return false; line.answered = true; return outcome(); }
        if (key == "observations") { if (shown) return false; shown = true; return observations(); }
        if (key == "source") { if (sourced) return false; sourced = true; return in.text(); }
        return false;
    });
    in.space();
    return whole && in.at == in.end && line.called == line.answered;
}

}  // namespace cp
