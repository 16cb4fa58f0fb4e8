// A cache by recency in C++17, and the driver that holds it to the specification over the line protocol.
//
//     g++ -std=c++17 -O2 -o lru_cpp docs/drivers/lru.cpp
//     cacheproof fuzz lru --target "exec:./lru_cpp"
//
// With --planted-bug behind it, touching a key does not make it younger, and fuzz and consume find that.

#include <cctype>
#include <cstdint>
#include <iostream>
#include <list>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

// The implementation under test: it knows nothing of the protocol.

class Cache {
public:
    explicit Cache(std::int64_t capacity, bool bug) : capacity(capacity), bug(bug) {}

    bool contains(std::int64_t key) const { return find(key) != entries.end(); }
    bool get(std::int64_t key) {
        const bool known = touch(key);
        hits += known, total += 1;
        return known;
    }

    bool touch(std::int64_t key) {
        const auto place = find(key);
        if (place == entries.end()) return false;
        if (!bug) entries.splice(entries.end(), entries, place);
        return true;
    }

    bool pop(std::int64_t key) {
        const auto place = find(key);
        if (place == entries.end()) return false;
        entries.erase(place);
        return true;
    }

    bool put(std::int64_t key, std::int64_t size) {
        if (size > capacity) return false;
        while (used() - size_of(key) + size > capacity) entries.pop_front();
        pop(key);
        entries.emplace_back(key, size);
        return true;
    }

    std::pair<std::int64_t, std::int64_t> stat() {
        const std::int64_t hits_before = std::exchange(reported_hits, hits);
        return {hits - hits_before, total - std::exchange(reported_total, total)};
    }

    std::int64_t used() const {
        return std::accumulate(entries.begin(), entries.end(), std::int64_t{0},
                               [](std::int64_t sum, const auto& entry) { return sum + entry.second; });
    }

    std::int64_t capacity, hits = 0, total = 0;
    bool bug;
    std::list<std::pair<std::int64_t, std::int64_t>> entries;  // key and size, oldest first
private:
    std::list<std::pair<std::int64_t, std::int64_t>>::const_iterator find(std::int64_t key) const {
        auto place = entries.begin();
        while (place != entries.end() && place->first != key) ++place;
        return place;
    }

    std::int64_t size_of(std::int64_t key) const { return contains(key) ? find(key)->second : 0; }

    std::int64_t reported_hits = 0, reported_total = 0;
};

// Messages: one flat object a line, of strings, integers, and arrays that this cache does not need and skips.

struct Message {
    std::map<std::string, std::string> texts;
    std::map<std::string, std::int64_t> numbers;
};

class Reader {
public:
    explicit Reader(const std::string& line) : line(line) {}

    Message message() {
        Message found;
        expect('{');
        for (bool first = true; peek() != '}'; first = false) {
            if (!first) expect(',');
            const std::string key = text();
            expect(':');
            if (peek() == '"') found.texts[key] = text();
            else if (peek() == '[') array(0);
            else found.numbers[key] = number();
        }
        expect('}');
        if (peek() != '\0') throw std::invalid_argument("more than one object");
        return found;
    }
private:
    char peek() {
        while (at < line.size() && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r')) ++at;
        return at < line.size() ? line[at] : '\0';
    }

    void expect(char wanted) {
        if (peek() != wanted) throw std::invalid_argument(std::string("expected ") + wanted);
        ++at;
    }

    std::string text() {  // what is asked of this driver has no escapes in it
        expect('"');
        const std::size_t begin = at, end = line.find('"', at);
        if (end == std::string::npos) throw std::invalid_argument("a string has no end");
        at = end + 1;
        return line.substr(begin, end - begin);
    }

    std::int64_t number() {
        const std::size_t begin = at;
        if (peek() == '-') ++at;
        while (at < line.size() && std::isdigit(static_cast<unsigned char>(line[at]))) ++at;
        return std::stoll(line.substr(begin, at - begin));
    }

    void array(int depth) {
        if (depth == 8) throw std::invalid_argument("nested too deep");
        expect('[');
        for (bool first = true; peek() != ']'; first = false) {
            if (!first) expect(',');
            if (peek() == '[') array(depth + 1);
            else if (peek() == '"') text();
            else number();
        }
        expect(']');
    }

    const std::string& line;
    std::size_t at = 0;
};

// The driver: what it has is said in hello; pins are not there, so they are not asked for.

const char* const HELLO =
    R"({"answer":"hello","protocol":"1.0","spec":"0.1","implementation":"docs/drivers/lru.cpp","components":["lru"],)"
    R"("features":["lru/operation/contains","lru/operation/lookup","lru/operation/get","lru/operation/put",)"
    R"("lru/operation/touch","lru/operation/pop","lru/operation/clear","lru/operation/stat"]})";

std::string shown(const Cache& cache) {
    std::string order, sizes;
    for (const auto& [key, size] : cache.entries) {
        order += (order.empty() ? "" : ",") + std::to_string(key);
        sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    }
    return ",\"order\":[" + order + "],\"sizes\":[" + sizes + "],\"used\":" + std::to_string(cache.used()) +
           ",\"hits\":" + std::to_string(cache.hits) + ",\"total\":" + std::to_string(cache.total) + "}";
}

std::string call(Cache& cache, const Message& asked) {
    const std::string& op = asked.texts.at("op");
    const auto key = [&] { return asked.numbers.at("key"); };
    std::string code = "unsupported", values;
    if (op == "put") code = cache.put(key(), asked.numbers.at("size")) ? "done" : "too_large";
    else if (op == "get") code = cache.get(key()) ? "hit" : "miss";
    else if (op == "lookup") code = cache.contains(key()) && cache.get(key()) ? "hit" : "absent";
    else if (op == "contains") code = cache.contains(key()) ? "hit" : "miss";
    else if (op == "touch") code = cache.touch(key()) ? "done" : "absent";
    else if (op == "pop") code = cache.pop(key()) ? "done" : "absent";
    else if (op == "clear") cache = Cache(cache.capacity, cache.bug), code = "done";
    else if (op == "stat") {
        const auto [hits, total] = cache.stat();
        code = "done", values = ",\"values\":[" + std::to_string(hits) + "," + std::to_string(total) + "]";
    }
    return "{\"answer\":\"outcome\",\"code\":\"" + code + "\"" + values + shown(cache);
}

int main(int count, char** arguments) {
    Cache cache(0, count > 1 && std::string(arguments[1]) == "--planted-bug");
    for (std::string line; std::getline(std::cin, line);) {
        std::string answer = HELLO;
        try {
            const Message asked = Reader(line).message();
            const std::string& what = asked.texts.at("do");
            if (what == "bye") answer = R"({"answer":"bye"})";
            if (what == "init") cache = Cache(asked.numbers.at("capacity"), cache.bug);
            if (what == "reset") cache = Cache(cache.capacity, cache.bug);
            if (what == "apply") answer = call(cache, asked);
            else if (what != "hello" && what != "bye") answer = R"({"answer":"state")" + shown(cache);
        } catch (const std::exception&) {  // a line that is no message, or that lacks a field
            answer = R"({"answer":"error","error":"not_a_message","text":"not understood"})";
        }
        std::cout << answer << std::endl;  // flushed: the other side waits for it
        if (answer == R"({"answer":"bye"})") return 0;
    }
}
