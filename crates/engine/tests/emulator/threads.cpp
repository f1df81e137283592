// Threads of the emulated device, as fibers that take turns.
//
// The host runs a cluster of blocks at a time on each of its threads. A fiber gives way where it waits:
// for the lanes of its warp, its block or its cluster. Shared memory begins as NaN, and from launch to
// launch and cluster to cluster warps take their turns otherwise: forwards or backwards, each block as
// far as it gets or all in step. So a kernel with a barrier too few is caught by its results.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "machine.hpp"

#ifndef __x86_64__
#error "the emulator switches stacks of x86-64 only"
#endif

// Puts registers that a callee keeps onto the stack, notes it, and goes on with another.
asm(R"(
    .text
    .type switch_stack, @function
switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size switch_stack, .-switch_stack
)");
extern "C" void switch_stack(void** from, void* to);

namespace emulated {

__thread Place* place;
__thread Machine* machine;

void give_way() { switch_stack(&machine->running->stack, machine->stack); }

namespace {

void begin_thread() {
    machine->entry(machine->args);
    Fiber* self = machine->running;
    self->done = true;
    Meeting& block = machine->blocks[self->in_cluster];
    --block.living;
    --machine->cluster.living;
    block.open_if_all();
    machine->cluster.open_if_all();
    give_way();
}

// A stack from which the first switch goes to `begin_thread`.
void* fresh_stack(unsigned char* memory) {
    void** top = (void**)(memory + STACK);
    *--top = nullptr;  // it never returns
    *--top = (void*)begin_thread;
    for (int registers = 0; registers < 6; ++registers) *--top = nullptr;
    return top;
}

unsigned arrive(Meeting& meeting) {
    const unsigned at = meeting.times;
    ++meeting.arrived;
    meeting.open_if_all();
    return at;
}

void wait(Meeting& meeting, unsigned at) {
    if (meeting.times != at) return;
    machine->running->ready = false;
    meeting.waiting.push_back(machine->running);
    give_way();
}

}  // namespace

Machine::~Machine() {
    if (stacks) munmap(stacks, stack_count * STACK);
    for (unsigned char* memory : shared) free(memory);
}

void Machine::reserve(size_t threads, unsigned cluster_blocks, size_t bytes) {
    if (threads > stack_count) {
        if (stacks) munmap(stacks, stack_count * STACK);
        stack_count = threads;
        void* memory = mmap(nullptr, stack_count * STACK, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) abort();
        stacks = (unsigned char*)memory;
    }
    if (shared.size() < cluster_blocks || shared_bytes < bytes) {
        for (unsigned char* memory : shared) free(memory);
        shared_bytes = (bytes + 255) / 256 * 256 + 256;
        shared.assign(cluster_blocks, nullptr);
        for (unsigned char*& memory : shared) memory = (unsigned char*)aligned_alloc(256, shared_bytes);
    }
}

void Machine::begin(const Grid& grid, unsigned first_block) {
    const unsigned threads = grid.threads.x, count = grid.cluster * threads;
    warps_per_block = (threads + LANES - 1) / LANES;
    reserve(count, grid.cluster, grid.shared);
    fibers.assign(count, Fiber());
    warps.assign(grid.cluster * warps_per_block, Warp());
    blocks.assign(grid.cluster, Meeting{threads});
    cluster = Meeting{count};
    wholes.clear();
    for (unsigned i = 0; i < count; ++i) {
        Fiber& f = fibers[i];
        const unsigned block = i / threads, thread = i % threads, number = first_block + block;
        f.thread = {thread, 0, 0};
        f.block = {number % grid.blocks.x, number / grid.blocks.x % grid.blocks.y,
                   number / grid.blocks.x / grid.blocks.y};
        f.Place::threads = grid.threads;
        f.Place::blocks = grid.blocks;
        f.Place::shared = shared[block];
        f.in_cluster = block;
        f.warp = &warps[block * warps_per_block + thread / LANES];
        f.warp->lanes[thread % LANES] = &f;
        f.stack = fresh_stack(stacks + i * STACK);
        f.ready = true;
    }
    for (unsigned block = 0; block < grid.cluster; ++block) memset(shared[block], 0xff, grid.shared);
}

// Lets the lanes of a warp run until each of them waits; whether any did.
bool Machine::let_run(Warp& warp) {
    bool any = false;
    for (bool again = true; again;) {
        again = false;
        for (Fiber* fiber : warp.lanes) {
            if (!fiber || fiber->done || !fiber->ready) continue;
            running = fiber;
            place = fiber;
            switch_stack(&stack, fiber->stack);
            any = again = true;
        }
    }
    return any;
}

bool Machine::run(const Grid& grid, unsigned first_block, unsigned order) {
    const bool backwards = order % 2, far = order / 2 % 2;
    early = order / 4 % 2;
    misaligned = false;
    begin(grid, first_block);
    auto from_end = [&](size_t turn, size_t count) { return backwards ? count - 1 - turn : turn; };
    while (cluster.living > 0) {
        bool moved = false;
        for (size_t turn = 0; turn < blocks.size(); ++turn) {
            const size_t first = from_end(turn, blocks.size()) * warps_per_block;
            bool again;
            do {
                again = false;
                for (size_t warp = 0; warp < warps_per_block; ++warp) {
                    again |= let_run(warps[first + from_end(warp, warps_per_block)]);
                }
                moved |= again;
            } while (far && again);
        }
        if (!moved) return false;
    }
    return !misaligned;
}

namespace {

// Machines that are free.
std::mutex idle_lock;
std::vector<std::unique_ptr<Machine>> idle;

std::unique_ptr<Machine> take_machine() {
    std::lock_guard<std::mutex> lock(idle_lock);
    if (idle.empty()) return std::make_unique<Machine>();
    std::unique_ptr<Machine> taken = std::move(idle.back());
    idle.pop_back();
    return taken;
}

void put_back(std::unique_ptr<Machine> free) {
    std::lock_guard<std::mutex> lock(idle_lock);
    idle.push_back(std::move(free));
}

}  // namespace

void meet_block() {
    Meeting& block = machine->blocks[machine->running->in_cluster];
    wait(block, arrive(block));
}

void arrive_at_cluster() { machine->running->arrived_at = arrive(machine->cluster); }

void wait_for_cluster() { wait(machine->cluster, machine->running->arrived_at); }

const void* in_other(const void* own, unsigned block) {
    size_t offset = (const unsigned char*)own - machine->running->shared;
    return machine->shared[block] + offset;
}

bool run(Entry entry, const void* args, const Grid& grid) {
    const unsigned blocks = grid.blocks.x * grid.blocks.y * grid.blocks.z;
    static std::atomic<unsigned> launches{0};
    const unsigned launch = launches++;
    std::atomic<unsigned> next{0};
    std::atomic<bool> ended{true};
    auto work = [&] {
        std::unique_ptr<Machine> own = take_machine();
        own->entry = entry;
        own->args = args;
        machine = own.get();
        for (unsigned first; (first = next.fetch_add(grid.cluster)) < blocks && ended;) {
            if (!own->run(grid, first, launch + first / grid.cluster)) ended = false;
        }
        put_back(std::move(own));
    };
    const unsigned groups = blocks / grid.cluster, most = std::thread::hardware_concurrency();
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < most && i < groups; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    return ended;
}

}  // namespace emulated
