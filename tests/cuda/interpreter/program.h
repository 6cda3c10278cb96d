// A kernel in PTX, NVIDIA's documented assembly language (PTX ISA 9.0), decoded for machine.h. The
// text is what nvcc embeds in an object file.
//
// All registers of a kernel and of the functions that it calls are rows of 32 numbers of 64 bits,
// one number a lane; so are constants, special registers and the addresses of parameters and of
// local memory, so that every operand is a row. Recursion is not supported, so every function has
// its own rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace apscope::interpreter {

struct Warp;
struct Op;
using Run = void (*)(Warp&, const Op&);

// Classes of instructions, which issue at different rates on a GPU.
enum class Class : std::uint8_t {
    integer32,  // additions, logic, comparisons, selections, moves
    integer64,  // the same on 64 bits: two instructions of a GPU
    multiply,   // of integers
    fp32,
    fp64,
    conversion,  // between floating-point types, and to or from integers
    division,    // and roots: a sequence of instructions
    load,
    store,
    local,  // a load or store of the lane's own memory
    shuffle,
    control,  // branches and calls
    free,     // a renaming of registers, no instruction of a GPU
    size
};
const char* name_of(Class c);

struct Op {
    enum class Kind : std::uint8_t { plain, branch, call, ret, trap, end };
    Run run = nullptr;
    Kind kind = Kind::plain;
    Class cost = Class::integer32;
    std::uint8_t bytes = 0, count = 1;  // of loads and stores: of one number, numbers
    bool is_signed = false, negated = false;
    std::uint8_t to_bits = 0;  // bits of the first destination
    std::int32_t guard = -1;   // the row of the predicate
    std::int32_t to[4] = {-1, -1, -1, -1}, from[5] = {-1, -1, -1, -1, -1};
    std::int64_t offset = 0;       // of an address
    std::uint32_t target = 0;      // of a branch or a call
    std::int32_t return_row = -1;  // of a call and of ret: the row of the addresses to return to
    std::vector<std::uint32_t> targets;  // of brx.idx
    std::string text;                    // the statement, for messages
};

struct Program {
    std::vector<Op> code;  // functions before their callers
    std::uint32_t entry = 0, rows = 0, lane_bytes = 0;
    struct Parameter {
        std::int32_t row;  // of its address
        std::uint32_t bytes;
    };
    std::vector<Parameter> parameters;  // of the kernel
    std::vector<std::pair<std::int32_t, std::uint64_t>> constants;
    std::vector<std::pair<std::int32_t, std::uint32_t>>
        lane_addresses;  // row, offset in its memory
    enum Special { tid, ntid, ctaid, nctaid, laneid, special_count };
    std::int32_t special[special_count] = {-1, -1, -1, -1, -1};
};

// A function of a text of PTX, undecoded.
struct Function {
    std::string name;
    std::vector<std::string> parameters, results;  // declarations
    std::vector<std::string> statements;
};
// Throws std::runtime_error for a text that is not of the kind which nvcc writes.
std::map<std::string, Function> read_functions(const std::string& ptx);
Program decode(const std::map<std::string, Function>& functions, const std::string& kernel);

// Finds how an instruction runs: fills run, kind, cost, bytes, count and is_signed from its name,
// as "add.s32". Throws std::runtime_error for an instruction that is not supported.
void find_instruction(const std::string& name, Op& op);

}  // namespace apscope::interpreter
