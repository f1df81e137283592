// Stands in for NVRTC: kernels are compiled for the host, into a library that the emulated driver loads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace {

enum Result { SUCCESS = 0, FAILED = 6 };

struct Program {
    std::string text, log, code;
};

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

// Behind the parenthesis that closes the one at `at`.
size_t behind_parentheses(const std::string& text, size_t at) {
    int depth = 0;
    do {
        if (text[at] == '(') ++depth;
        if (text[at] == ')') --depth;
    } while (++at < text.size() && depth > 0);
    return at;
}

// The name that a declaration gives, found behind `__global__`: the first that parentheses follow and
// that is no attribute.
std::string kernel_name(const std::string& text, size_t at) {
    while (at < text.size()) {
        if (text[at] == '#') at = text.find('\n', at);
        size_t start = at;
        while (at < text.size() && is_name(text[at])) ++at;
        std::string name = text.substr(start, at - start);
        if (text[at] == '(') {
            if (name.compare(0, 2, "__") != 0) return name;
            at = behind_parentheses(text, at);
        } else {
            ++at;
        }
    }
    return "";
}

// Dynamic shared memory belongs to the block that runs: `extern __shared__ … T name[];` becomes
// a macro for where it lies.
std::string with_shared(std::string text) {
    const std::string start = "extern __shared__";
    for (size_t at; (at = text.find(start)) != std::string::npos;) {
        size_t end = text.find("[];", at), name = end;
        while (is_name(text[name - 1])) --name;
        std::string type = text.substr(at + start.size(), name - at - start.size());
        size_t attribute = type.find("__align__");
        if (attribute != std::string::npos) {
            type.erase(attribute, behind_parentheses(type, attribute + 9) - attribute);
        }
        std::string macro = "\n#define " + text.substr(name, end - name) + " ((" + type +
                            "*)emulated::place->shared)\n";
        text.replace(at, end + 3 - at, macro);
    }
    return text;
}

std::string host_text(const std::string& kernels) {
    std::string text = "#include \"kernel.hpp\"\n" + with_shared(kernels);
    const std::string mark = "__global__";
    for (size_t at = 0; (at = kernels.find(mark, at)) != std::string::npos; at += mark.size()) {
        std::string name = kernel_name(kernels, at + mark.size());
        text += "\nextern \"C\" void emulated_" + name + "(const void* args) { call(" + name +
                ", args); }\nextern \"C\" { unsigned emulated_size_" + name +
                " = size_of_args(" + name + "); }\n";
    }
    return text + "#ifdef CLUSTER\nextern \"C\" { unsigned emulated_cluster = CLUSTER; }\n#endif\n";
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
    *major = *minor = 0;
    return SUCCESS;
}

const char* nvrtcGetErrorString(int) { return "the kernel does not compile"; }

int nvrtcCreateProgram(Program** program, const char* text, const char*, int, const char* const*,
                       const char* const*) {
    *program = new Program{text, "", ""};
    return SUCCESS;
}

int nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return SUCCESS;
}

int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    char folder[] = "/tmp/emulated-XXXXXX";
    if (!mkdtemp(folder)) return FAILED;
    const std::string at = folder, source = at + "/kernel.cpp", code = at + "/kernel.so",
                      log = at + "/log";
    std::ofstream(source) << host_text(program->text);
    std::string command = "c++ -std=c++17 -O1 -march=native -ffp-contract=fast -w -shared -fPIC "
                          "-I '" HEADERS "'";
    for (int i = 0; i < count; ++i) {
        if (strncmp(options[i], "-D", 2) == 0) command += std::string(" ") + options[i];
    }
    command += " -o " + code + " " + source + " > " + log + " 2>&1";
    const bool compiled = system(command.c_str()) == 0;
    program->log = content(log);
    const std::string library = content(code);
    const size_t size = library.size();
    program->code.assign((const char*)&size, sizeof size).append(library);
    for (const std::string& file : {source, code, log}) unlink(file.c_str());
    rmdir(folder);
    return compiled ? SUCCESS : FAILED;
}

int nvrtcGetProgramLogSize(Program* program, size_t* size) {
    *size = program->log.size() + 1;
    return SUCCESS;
}

int nvrtcGetProgramLog(Program* program, char* log) {
    strcpy(log, program->log.c_str());
    return SUCCESS;
}

int nvrtcGetCUBINSize(Program* program, size_t* size) {
    *size = program->code.size();
    return SUCCESS;
}

int nvrtcGetCUBIN(Program* program, char* code) {
    memcpy(code, program->code.data(), program->code.size());
    return SUCCESS;
}
}
