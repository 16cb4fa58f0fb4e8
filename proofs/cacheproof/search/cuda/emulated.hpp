// What a unit for a CUDA device needs of CUDA, on a CPU: kernels are loops, and blocks are shared by a few threads.
//
// Tests compile the kernels with it, so that they are compared with the native engine where there is no device. Nothing
// here is for speed.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define __device__
#define __global__ static
#define __constant__ static
#define __shared__ static thread_local

struct Place { unsigned x = 0; };
static thread_local Place threadIdx, blockIdx;
static Place gridDim, blockDim;

struct Ended {};  // a thread of a kernel ends where it stands
[[noreturn]] inline void end_of_thread() { throw Ended(); }

template <class T, class U> T atomicAdd(T* at, U more) { return __atomic_fetch_add(at, T(more), __ATOMIC_SEQ_CST); }
inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long expected, unsigned long long wanted) {
    __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline unsigned long long __ldcg(const unsigned long long* at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }

constexpr unsigned EMULATED = 3;  // threads of the CPU
template <class Kernel> void emulate(unsigned blocks, unsigned threads, Kernel kernel) {
    gridDim.x = blocks;
    blockDim.x = threads;
    std::atomic<unsigned> next{0};
    auto run = [&] {
        for (unsigned block = next++; block < blocks; block = next++)
            for (unsigned thread = 0; thread < threads; ++thread) {
                blockIdx.x = block;
                threadIdx.x = thread;
                try { kernel(); } catch (const Ended&) {}
            }
    };
    std::vector<std::thread> all;
    for (unsigned each = 1; each < EMULATED; ++each) all.emplace_back(run);
    run();
    for (auto& each : all) each.join();
}
#define CP_LAUNCH(kernel, blocks, threads, ...) emulate(blocks, threads, [&] { kernel(__VA_ARGS__); })

// The runtime ------------------------------------------------------------------------------------------------------------

using cudaError_t = int;
constexpr cudaError_t cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNotReady = 600;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaLimit { cudaLimitStackSize };
struct cudaDeviceProp { char name[256] = "emulated"; int multiProcessorCount = 2; };
constexpr size_t EMULATED_BYTES = size_t(1) << 32;
inline const char* cudaGetErrorString(cudaError_t) { return "no memory is left"; }
inline cudaError_t cudaMalloc(void** at, size_t bytes) {  // what is there is not zero, as on a device
    *at = std::malloc(bytes);
    if (*at) std::memset(*at, 0xa5, bytes);
    return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void* at) { std::free(at); return cudaSuccess; }
inline cudaError_t cudaMemset(void* at, int value, size_t bytes) { std::memset(at, value, bytes); return cudaSuccess; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { std::memcpy(to, from, bytes); return cudaSuccess; }
template <class T> cudaError_t cudaMemcpyToSymbol(T& to, const void* from, size_t bytes) { std::memcpy(&to, from, bytes); return cudaSuccess; }
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) { *free = *total = EMULATED_BYTES; return cudaSuccess; }
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
#ifndef CP_HANGS  // a test pretends that kernels do not end
#define CP_HANGS false
#endif
inline cudaError_t cudaStreamQuery(void*) { return CP_HANGS ? cudaErrorNotReady : cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int) { *to = {}; return cudaSuccess; }
template <class Kernel> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* to, Kernel, int, size_t) { *to = 2; return cudaSuccess; }
