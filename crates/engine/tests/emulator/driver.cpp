// Stands in for NVIDIA's driver: GPUs that are this machine's processor. What is launched is done at
// once; a captured graph is a list of launches.
//
// EMULATED_GPUS    see gpus.hpp
// EMULATED_MEMORY  see gpus.hpp
// EMULATED_LOG     a file that gets a line for each GPU that is used
// EMULATED_FAIL    see failures.cpp
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulated.hpp"
#include "failures.hpp"
#include "gpus.hpp"

namespace {

enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    CAPTURE_INVALIDATED = 901
};

// Ends a call that is to fail this time.
#define MAY_FAIL if (int error = emulated::failure(__func__)) return error

// The one that the thread has chosen.
thread_local Gpu* current;

void note_launch() {
    static const std::string log = variable("EMULATED_LOG", "");
    std::lock_guard<std::mutex> own(current->lock);
    if (log.empty() || current->launched) return;
    current->launched = true;
    size_t number = 0;
    while (&gpus()[number] != current) ++number;
    std::ofstream(log, std::ios::app) << "GPU " + std::to_string(number) + "\n";
}

struct Function {
    std::string name;
    emulated::Entry entry;
    unsigned args, cluster;
};

struct Launch {
    const Function* function;
    emulated::Grid grid;
    std::vector<unsigned char> args;
    bool side;  // captured on another stream than the graph's
    bool joins;  // nothing to launch: the graph's stream waits for the others here

    Result run() const {
        note_launch();
        if (emulated::run(function->entry, args.data(), grid)) return SUCCESS;
        fprintf(stderr, "%s: its threads wait for each other, or a copy is misaligned\n", function->name.c_str());
        return LAUNCH_FAILED;
    }
};

struct Stream;

struct Graph {
    Stream* stream;
    bool invalid = false;  // a launch failed while it was captured
    std::vector<Launch> launches;
    unsigned times = 0;

    // Every other time what was captured on other streams runs as late as it may.
    Result run() {
        const bool late = times++ % 2;
        std::vector<const Launch*> waiting;
        auto flush = [&] {
            Result result = SUCCESS;
            for (const Launch* launch : waiting) {
                if (result == SUCCESS) result = launch->run();
            }
            waiting.clear();
            return result;
        };
        for (const Launch& launch : launches) {
            Result result = SUCCESS;
            if (launch.joins) {
                result = flush();
            } else if (launch.side && late) {
                waiting.push_back(&launch);
            } else {
                result = launch.run();
            }
            if (result != SUCCESS) return result;
        }
        return flush();
    }
};

struct Stream {
    std::shared_ptr<Graph> graph;  // that it is captured into
};

struct Event {
    std::shared_ptr<Graph> graph;
    bool side = false;
};

std::vector<Stream*>& streams() {
    static thread_local std::vector<Stream*> all;  // captures are the thread's own
    return all;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
    MAY_FAIL;
    return SUCCESS;
}

int cuDriverGetVersion(int* version) {
    *version = 13000;
    return SUCCESS;
}

int cuDeviceGetCount(int* count) {
    *count = (int)gpus().size();
    return SUCCESS;
}

int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < (int)gpus().size() ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetName(char* name, int length, int) {
    snprintf(name, length, "emulator");
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
    *bytes = gpus()[device].memory;
    return SUCCESS;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
    const Gpu& gpu = gpus()[device];
    switch (attribute) {
        case 16: *value = 132; break;  // multiprocessors
        case 75: *value = gpu.major; break;
        case 76: *value = gpu.minor; break;
        case 97: *value = gpu.major < 9 ? 166912 : 232448; break;  // shared memory of a block
        default: *value = 0;
    }
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(Gpu** context, int device) {
    *context = &gpus()[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }

int cuCtxSetCurrent(Gpu* context) {
    current = context;
    return SUCCESS;
}

int cuCtxGetCurrent(Gpu** context) {
    *context = current;
    return SUCCESS;
}

int cuCtxSetFlags(unsigned) { return SUCCESS; }
int cuCtxSynchronize() { return SUCCESS; }

int cuMemGetInfo_v2(size_t* free, size_t* total) {
    std::lock_guard<std::mutex> own(current->lock);
    *total = current->memory;
    *free = current->memory - current->used;
    return SUCCESS;
}

// Memory begins as NaN.
int cuMemAlloc_v2(void** at, size_t bytes) {
    MAY_FAIL;
    *at = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*at || !current->take(*at, bytes)) {
        free(*at);
        return OUT_OF_MEMORY;
    }
    memset(*at, 0xff, bytes);
    return SUCCESS;
}

int cuMemFree_v2(void* at) {
    for (Gpu& gpu : gpus()) gpu.give_back(at);
    free(at);
    return SUCCESS;
}

int cuMemsetD8Async(void* at, unsigned char value, size_t bytes, Stream*) {
    memset(at, value, bytes);
    return SUCCESS;
}

int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, Stream*) {
    memcpy(to, from, bytes);
    return SUCCESS;
}

int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, Stream*) {
    memcpy(to, from, bytes);
    return SUCCESS;
}

int cuStreamCreate(Stream** stream, unsigned) {
    *stream = new Stream;
    return SUCCESS;
}

int cuStreamDestroy_v2(Stream* stream) {
    delete stream;
    return SUCCESS;
}

int cuStreamSynchronize(Stream*) { return SUCCESS; }

int cuEventCreate(Event** event, unsigned) {
    *event = new Event;
    return SUCCESS;
}

int cuEventDestroy_v2(Event* event) {
    delete event;
    return SUCCESS;
}

int cuEventRecord(Event* event, Stream* stream) {
    event->graph = stream->graph;
    event->side = stream->graph && stream->graph->stream != stream;
    return SUCCESS;
}

int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    if (!event->graph) return SUCCESS;
    if (!stream->graph) {
        stream->graph = event->graph;
        streams().push_back(stream);
    }
    if (event->side && stream->graph->stream == stream) {
        stream->graph->launches.push_back({nullptr, {}, {}, false, true});
    }
    return SUCCESS;
}

int cuStreamBeginCapture_v2(Stream* stream, int) {
    stream->graph = std::make_shared<Graph>();
    stream->graph->stream = stream;
    streams().assign(1, stream);
    return SUCCESS;
}

int cuStreamEndCapture(Stream* stream, Graph** graph) {
    const bool invalid = stream->graph->invalid;
    *graph = invalid ? nullptr : new Graph(*stream->graph);
    for (Stream* captured : streams()) captured->graph.reset();
    streams().clear();
    return invalid ? CAPTURE_INVALIDATED : SUCCESS;
}

int cuStreamIsCapturing(Stream* stream, int* status) {
    *status = stream->graph ? 1 : 0;
    return SUCCESS;
}

int cuGraphInstantiateWithFlags(Graph** run, Graph* graph, unsigned long long) {
    *run = new Graph(*graph);
    return SUCCESS;
}

int cuGraphLaunch(Graph* graph, Stream*) {
    MAY_FAIL;
    return graph->run();
}

int cuGraphDestroy(Graph* graph) {
    delete graph;
    return SUCCESS;
}

int cuGraphExecDestroy(Graph* graph) {
    delete graph;
    return SUCCESS;
}

// The image is a library, whose size its headers do not tell: the compiler puts it before it.
int cuModuleLoadData(void** module, const void* image) {
    MAY_FAIL;
    size_t size;
    memcpy(&size, image, sizeof size);
    char path[] = "/tmp/emulated-XXXXXX";
    int file = mkstemp(path);
    const char* bytes = (const char*)image + sizeof size;
    const bool written = file >= 0 && write(file, bytes, size) == (ssize_t)size;
    close(file);
    void* library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    unlink(path);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return INVALID_IMAGE;
    }
    *module = library;
    return SUCCESS;
}

int cuModuleUnload(void* module) {
    dlclose(module);
    return SUCCESS;
}

int cuModuleGetFunction(Function** function, void* module, const char* name) {
    auto symbol = [&](const std::string& of) { return dlsym(module, of.c_str()); };
    auto entry = (emulated::Entry)symbol(std::string("emulated_") + name);
    auto size = (const unsigned*)symbol(std::string("emulated_size_") + name);
    auto cluster = (const unsigned*)symbol("emulated_cluster");
    if (!entry || !size) {
        fprintf(stderr, "%s: no such kernel\n", name);
        return NOT_FOUND;
    }
    *function = new Function{name, entry, *size, cluster ? *cluster : 1};
    return SUCCESS;
}

int cuFuncSetAttribute(Function*, int, int) { return SUCCESS; }

int cuLaunchKernel(Function* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned,
                   unsigned, unsigned shared, Stream* stream, void** args, void**) {
    if (int error = emulated::failure(__func__)) {
        if (stream->graph) stream->graph->invalid = true;
        return error;
    }
    const unsigned char* from = (const unsigned char*)args[0];
    Launch launch{function,
                  {{x, y, z}, {threads, 1, 1}, function->cluster, shared},
                  {from, from + function->args},
                  stream->graph && stream->graph->stream != stream,
                  false};
    if (!stream->graph) return launch.run();
    stream->graph->launches.push_back(launch);
    return SUCCESS;
}
}
