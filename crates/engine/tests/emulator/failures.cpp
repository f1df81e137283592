// Failures on demand, and what the driver calls them.
//
// EMULATED_FAIL    a call of the driver that fails, from which time on, and with which error, such as
//                  cuMemAlloc_v2:3:2
#include "failures.hpp"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

namespace {

struct Failure {
    char call[64] = "";
    int from = 0, error = 0;

    Failure() {
        const char* text = getenv("EMULATED_FAIL");
        if (text && sscanf(text, "%63[^:]:%d:%d", call, &from, &error) == 3) return;
        *call = 0;
    }
};

}  // namespace

namespace emulated {

int failure(const char* call) {
    static const Failure wanted;
    static std::atomic<int> calls;
    if (strcmp(call, wanted.call) != 0 || ++calls < wanted.from) return 0;
    return wanted.error;
}

}  // namespace emulated

extern "C" {

int cuGetErrorName(int, const char** text) {
    *text = "EMULATED";
    return 0;
}

int cuGetErrorString(int error, const char** text) {
    switch (error) {
        case 2: *text = "out of memory"; break;
        case 100: *text = "no CUDA-capable device is detected"; break;
        case 719: *text = "unspecified launch failure"; break;
        case 803: *text = "system has unsupported display driver / cuda driver combination"; break;
        case 901: *text = "operation failed due to a previous error during capture"; break;
        default: *text = "the emulated device failed";
    }
    return 0;
}
}
