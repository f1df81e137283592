// What kernels ask of the emulated device. A thread of the device is a fiber of the host: it runs until
// it waits for others, of its warp, block or cluster.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace emulated {

struct Index {
    unsigned x, y, z;
};

// Where a thread stands, and what its block has.
struct Place {
    Index thread, block, threads, blocks;
    unsigned char* shared;  // the block's dynamic shared memory
};

// The place of the thread that runs.
extern __thread Place* place;

// All threads of the block meet.
void meet_block();

// Those of the cluster do, each in two parts: it waits for all to have arrived, itself before that.
void arrive_at_cluster();
void wait_for_cluster();

// Where something in the block's shared memory lies in that of another block of the cluster.
const void* in_other(const void* own, unsigned block);

// Gives a value to the lanes of the mask and takes theirs.
struct Lanes {
    uint64_t values[32];
};
Lanes exchange(uint32_t mask, uint64_t own);

// c ← c + a·b by a warp, with a (16, 8), b (8, 8) and c (16, 8); see `tensor.cuh` for who holds what.
void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

// Starts such products with the columns of c, by eights, b in a tile; see `machine.cuh`. Factors are read
// as late as they may be.
void start_product(float (*c)[4], int eights, const uint32_t (&a)[4], const float* tile, int first);
// Those since the last call are a group; waits for all groups but the last few.
void finish_products(int but);

// Copies to shared memory, zeros behind the first `bytes`. It happens at once or as late as it may.
void copy(void* to, const void* from, int bytes, int size);
void end_copies();
void wait_copies(int but);

// Copies of whole tiles, for all threads of a block to wait for. They happen at once, or when the first one
// waits.
struct Arrival {
    unsigned number;
};
void expect_arrivals(Arrival* first, int count);
void copy_whole(void* to, const void* from, int bytes, Arrival* arrival);
void wait_arrival(Arrival* arrival, int before);

// How a kernel is called: with one structure.
typedef void (*Entry)(const void* args);

struct Grid {
    Index blocks, threads;
    unsigned cluster;  // blocks along x
    size_t shared;     // bytes
};

// Runs a kernel to its end; false if its threads wait for each other for ever, or copy what is not
// aligned.
bool run(Entry entry, const void* args, const Grid& grid);

}  // namespace emulated
