// Failures on demand.
#pragma once

namespace emulated {

// The error that a call of the driver ends with this time; 0 if it does its work.
int failure(const char* call);

}  // namespace emulated
