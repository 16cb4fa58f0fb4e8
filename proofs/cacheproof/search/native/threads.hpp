// Threads that wait for work, do it together, and wait again.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace cp {

struct Threads {
    std::mutex mutex;
    std::condition_variable begun, ended;
    std::function<void(size_t)> work;
    size_t round = 0, busy = 0;
    bool over = false;
    std::vector<std::thread> others;

    explicit Threads(size_t count) {
        for (size_t own = 1; own < count; ++own) others.emplace_back([this, own] { serve(own); });
    }
    ~Threads() {
        { const std::lock_guard held(mutex); over = true; }
        begun.notify_all();
        for (auto& each : others) each.join();
    }
    // The work of every thread, each told which it is; the thread that asks is number 0.
    void all(std::function<void(size_t)> wanted) {
        { const std::lock_guard held(mutex); work = std::move(wanted); busy = others.size(); ++round; }
        begun.notify_all();
        work(0);
        std::unique_lock held(mutex);
        ended.wait(held, [&] { return busy == 0; });
    }
    void serve(size_t own) {
        for (size_t done = 0;;) {
            std::unique_lock held(mutex);
            begun.wait(held, [&] { return over || round != done; });
            if (over) return;
            done = round;
            held.unlock();
            work(own);
            held.lock();
            if (--busy == 0) ended.notify_one();
        }
    }
};

}  // namespace cp
