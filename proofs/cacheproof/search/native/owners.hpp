// A search that several processes share. Each owns the states whose rows fall to it by their hash. A step to a state of
// another owner is sent to that one as bytes: the step, its label (0: none is needed), the size of the row, and the row.
#pragma once
#include "bytes.hpp"
#include "states.hpp"
#include <memory>

namespace cp {

constexpr uint64_t FOREIGN = uint64_t(1) << 62;  // not the number of a state, but which of the rows that were sent in this level

struct Owners {
    size_t place = 0, count = 1;
    std::vector<uint64_t> numbers;  // of own states, ascending; empty if one process owns all, because they are their places then
    std::vector<Bytes> out = std::vector<Bytes>(1);
    std::unique_ptr<Known> sent = std::make_unique<Known>();
    void share(size_t own, size_t all) { place = own; count = all; out = std::vector<Bytes>(all); }
    bool several() const { return count > 1; }
    size_t owner_of(uint64_t hash) const { return (hash >> 16) % count; }
    bool owns(uint64_t hash) const { return !several() || owner_of(hash) == place; }
    uint64_t number_at(size_t own) const { return several() ? numbers[own] : own; }
    uint64_t label(uint64_t own) const { return own * count + place; }  // no other owner has it
    void clear() { for (auto& each : out) each.clear(); }
    void forget() { sent = std::make_unique<Known>(); }
    uint64_t send(const Row& row, uint64_t hash, Int at) {
        size_t found = sent->find(row, hash);
        if (found == SIZE_MAX) {
            found = sent->add(row, hash);
            add(owner_of(hash), row, at, 0);
        }
        return FOREIGN | found;
    }
    void send_step(uint64_t target, Int at, uint64_t own_label) {
        const Row row = sent->row(target & ~FOREIGN);
        add(owner_of(hashed(row.data, row.size)), row, at, Int(label(own_label)));
    }
    void add(size_t owner, const Row& row, Int at, Int named) {
        Bytes& to = out[owner];
        put(to, at);
        put(to, named);
        put(to, Int(row.size));
        to.need(row.size);
        std::memcpy(to.last, row.data, row.size);
        to.last += row.size;
    }
};

}  // namespace cp
