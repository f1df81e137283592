/* Stands in for NVIDIA's driver where there is none: two GPUs that can be asked and not used.
   The first is too old. */
#include <stdio.h>

int cuInit(unsigned flags) { return flags; }

int cuDriverGetVersion(int *version) {
    *version = 13020;
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = 2;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, length, "Stand-in %d", device);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = (size_t)(device + 1) << 33;
    return 0;
}

/* 75 and 76 are the parts of the compute capability. */
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 7 + 2 * device : 0;
    return attribute == 75 || attribute == 76 ? 0 : 1;
}
