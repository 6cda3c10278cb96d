// Finds how an instruction runs from its name, without rounding and address space: "add.f32",
// "setp.lt.u32", "ld.u64".
#include <algorithm>
#include <stdexcept>

#include "lanes.h"

namespace apscope::interpreter {

namespace {

const Table& table() {
    static const Table made = [] {
        Table t;
        add_arithmetic(t);
        add_memory(t);
        return t;
    }();
    return made;
}

}  // namespace

const char* name_of(Class c) {
    static constexpr const char* names[] = {"integer32",  "integer64", "multiply", "fp32",  "fp64",
                                            "conversion", "division",  "load",     "store", "local",
                                            "shuffle",    "control",   "free"};
    return names[static_cast<int>(c)];
}

void find_instruction(const std::string& name, Op& op) {
    std::string key;
    bool is_local = false, is_memory = name.starts_with("ld") || name.starts_with("st");
    std::size_t at = 0;
    while (at < name.size()) {
        const std::size_t end = std::min(name.find('.', at + 1), name.size());
        const std::string part = name.substr(at, end - at);
        at = end;
        if (part == ".rn" || part == ".uni" || part == ".sync" || part == ".relaxed" ||
            part == ".gpu" || part == ".volatile" || part == ".nc" || part == ".global" ||
            part == ".const" || part == ".full" || part == ".weak")
            continue;
        if (part == ".ftz" || part == ".sat")
            throw std::runtime_error("PTX: " + name + " flushes or saturates");
        if (part == ".local" || part == ".param") {
            is_local = is_memory;
            if (part == ".param" && is_memory) op.cost = Class::free;
            continue;
        }
        if (is_memory && (part == ".v2" || part == ".v4")) {
            op.count = part == ".v2" ? 2 : 4;
            continue;
        }
        key += part;
    }
    const auto control = [&](Op::Kind kind) {
        op.kind = kind;
        op.cost = Class::control;
    };
    if (key == "bra" || key == "brx.idx") return control(Op::Kind::branch);
    if (key == "ret") return control(Op::Kind::ret);
    if (key == "exit") return control(Op::Kind::end);
    if (key == "trap") return control(Op::Kind::trap);
    const auto found = table().find(key);
    if (found == table().end())
        throw std::runtime_error("PTX: an instruction that is not supported: " + name);
    op.run = found->second.run;
    op.cost = found->second.cost;
    if (is_local) op.cost = name.find(".param") != std::string::npos ? Class::free : Class::local;
    const auto bits = key.find_last_not_of("0123456789");
    if (bits + 1 < key.size())
        op.bytes = static_cast<std::uint8_t>(std::stoul(key.substr(bits + 1)) / 8);
    op.is_signed = key[bits] == 's';
}

}  // namespace apscope::interpreter
