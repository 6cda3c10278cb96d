#include "program.h"

#include <bit>
#include <cctype>
#include <regex>
#include <stdexcept>

namespace apscope::interpreter {

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& text) {
    throw std::runtime_error("PTX: " + what + ": " + text);
}

std::string without_comments(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.compare(i, 2, "//") == 0) i = std::min(text.find('\n', i), text.size() - 1);
        else if (text.compare(i, 2, "/*") == 0) i = text.find("*/", i) + 1;
        if (i < text.size() && text[i] != '\0') out += text[i];
    }
    return out;
}

std::string trimmed(const std::string& s) {
    const auto first = s.find_first_not_of(" \t\r\n"), last = s.find_last_not_of(" \t\r\n");
    return first == std::string::npos ? "" : s.substr(first, last - first + 1);
}

// The parts of "a, {b, c}, [d+4]": commas in braces and brackets do not divide.
std::vector<std::string> parts_of(const std::string& list) {
    std::vector<std::string> parts;
    std::string part;
    int depth = 0;
    for (const char c : list) {
        if (c == '{' || c == '[' || c == '(') ++depth;
        if (c == '}' || c == ']' || c == ')') --depth;
        if (c == ',' && depth == 0) {
            parts.push_back(trimmed(part));
            part.clear();
        } else {
            part += c;
        }
    }
    if (!trimmed(part).empty()) parts.push_back(trimmed(part));
    return parts;
}

// A declaration such as ".param .align 8 .b8 name[488]": its name and size in bytes.
struct Declared {
    std::string name;
    std::uint32_t bytes = 0, bits = 0, count = 1;
    bool is_range = false;  // %r<12>

    explicit Declared(const std::string& text) {
        static const std::regex form(
            R"(^(?:\.visible |\.weak )*\.(?:param|local|reg|global|const)\s+(?:\.ptr\s+)?(?:\.align\s+\d+\s+)?\.(pred|[a-z])(\d*)\s+(?:\.ptr\s*(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?([%$\w]+)\s*(?:<(\d+)>|\[(\d+)\])?$)");
        std::smatch m;
        if (!std::regex_match(text, m, form)) refuse("a declaration of another form", text);
        bits = m[2].length() != 0 ? static_cast<std::uint32_t>(std::stoul(m[2])) : 1;
        name = m[3];
        is_range = m[4].matched;
        if (m[5].matched) count = static_cast<std::uint32_t>(std::stoul(m[5]));
        bytes = (bits + 7) / 8 * count;
    }
};

// Decodes one kernel and what it calls.
class Decoder {
public:
    Decoder(const std::map<std::string, Function>& functions, Program& program)
        : functions_(functions), program_(program) {}

    struct Placed {
        std::uint32_t entry;
        std::int32_t return_row;
        std::vector<std::int32_t> parameters, results;  // rows of addresses
        std::vector<std::uint32_t> parameter_bytes, result_bytes;
    };

    const Placed& place(const std::string& name, bool is_kernel) {
        if (const auto found = placed_.find(name); found != placed_.end()) return found->second;
        const auto f = functions_.find(name);
        if (f == functions_.end()) refuse("a function without a body", name);
        // Callees come first, so that a lane in one has a lower address than its caller.
        for (const std::string& s : f->second.statements)
            if (s.starts_with("call")) place(callee_of(s), false);
        return placed_.emplace(name, body(f->second, is_kernel)).first->second;
    }

private:
    struct Names {
        std::map<std::string, std::int32_t> rows;
        std::map<std::string, std::uint32_t> prefix_bits;  // %r -> 32
        std::map<std::string, std::uint32_t> bits;
        std::map<std::string, std::uint32_t> bytes;  // of parameters and local arrays
    };

    std::int32_t new_row() { return static_cast<std::int32_t>(program_.rows++); }
    std::int32_t constant(std::uint64_t value) {
        const auto [at, is_new] = constants_.try_emplace(value, 0);
        if (is_new) {
            at->second = new_row();
            program_.constants.emplace_back(at->second, value);
        }
        return at->second;
    }
    std::int32_t lane_address(std::uint32_t bytes) {
        const std::int32_t row = new_row();
        program_.lane_addresses.emplace_back(row, program_.lane_bytes);
        program_.lane_bytes += (bytes + 15) / 16 * 16;
        return row;
    }

    static std::string callee_of(const std::string& call) {
        static const std::regex form(R"(^call(?:\.uni)?\s*(?:\([^)]*\)\s*,)?\s*([\w$]+)\s*[,]?)");
        std::smatch m;
        if (!std::regex_search(call, m, form)) refuse("a call of another form", call);
        return m[1];
    }

    std::uint32_t bits_of(const Names& names, const std::string& name) const {
        if (const auto exact = names.bits.find(name); exact != names.bits.end())
            return exact->second;
        const auto end = name.find_last_not_of("0123456789");
        const auto prefix = names.prefix_bits.find(name.substr(0, end + 1));
        return prefix != names.prefix_bits.end() ? prefix->second : 64;
    }

    std::int32_t special(const std::string& name) {
        static const std::map<std::string, Program::Special> all{{"%tid.x", Program::tid},
                                                                 {"%ntid.x", Program::ntid},
                                                                 {"%ctaid.x", Program::ctaid},
                                                                 {"%nctaid.x", Program::nctaid},
                                                                 {"%laneid", Program::laneid}};
        const auto found = all.find(name);
        if (found == all.end()) return -1;
        std::int32_t& row = program_.special[found->second];
        if (row < 0) row = new_row();
        return row;
    }

    // The row of an operand: a register, a name, a number.
    std::int32_t operand(Names& names, const std::string& text) {
        if (text == "_") return new_row();
        if (const auto row = names.rows.find(text); row != names.rows.end()) return row->second;
        if (const std::int32_t row = special(text); row >= 0) return row;
        if (text == "%laneid") return special(text);
        if (text.starts_with("0f") || text.starts_with("0F"))
            return constant(std::stoul(text.substr(2), nullptr, 16));
        if (text.starts_with("0d") || text.starts_with("0D"))
            return constant(std::stoull(text.substr(2), nullptr, 16));
        if (text == "WARP_SZ") return constant(32);
        if (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-') {
            std::string digits = text;
            if (digits.back() == 'U') digits.pop_back();
            return constant(digits[0] == '-'
                                ? static_cast<std::uint64_t>(std::stoll(digits, nullptr, 0))
                                : std::stoull(digits, nullptr, 0));
        }
        if (text[0] != '%' && names.bits.find(text) == names.bits.end())
            refuse("an operand of another form", text);
        return names.rows.emplace(text, new_row()).first->second;
    }

    // [name], [name+4], [%rd1+-8] and [%rd1]
    void address(Names& names, const std::string& text, Op& op, int at) {
        const std::string inner = trimmed(text.substr(1, text.size() - 2));
        const auto plus = inner.find('+');
        op.from[at] = operand(names, trimmed(inner.substr(0, plus)));
        if (plus != std::string::npos) op.offset = std::stoll(inner.substr(plus + 1), nullptr, 0);
    }

    Placed body(const Function& f, bool is_kernel) {
        Names names;
        Placed placed{static_cast<std::uint32_t>(program_.code.size()), -1, {}, {}, {}, {}};
        if (!is_kernel) placed.return_row = new_row();
        for (const std::string& text : f.parameters) {
            const Declared d(text);
            if (is_kernel) {
                program_.parameters.push_back({new_row(), d.bytes});
                names.rows[d.name] = program_.parameters.back().row;
            } else {
                placed.parameters.push_back(names.rows[d.name] = lane_address(d.bytes));
                placed.parameter_bytes.push_back(d.bytes);
            }
        }
        for (const std::string& text : f.results) {
            const Declared d(text);
            placed.results.push_back(names.rows[d.name] = lane_address(d.bytes));
            placed.result_bytes.push_back(d.bytes);
        }
        std::map<std::string, std::uint32_t> labels;
        std::map<std::string, std::vector<std::string>> tables;
        std::vector<std::pair<std::size_t, std::string>> jumps, table_jumps;
        for (const std::string& statement : f.statements) {
            if (statement.back() == ':') {
                labels[statement.substr(0, statement.size() - 1)] =
                    static_cast<std::uint32_t>(program_.code.size());
                continue;
            }
            if (const auto at = statement.find(".branchtargets"); at != std::string::npos) {
                const std::string label = trimmed(statement.substr(0, statement.find(':')));
                tables[label] = parts_of(statement.substr(at + 14));
                continue;
            }
            if (statement[0] == '.') {
                declare(names, statement);
                continue;
            }
            instruction(names, statement, placed, is_kernel, jumps, table_jumps);
        }
        for (const auto& [at, label] : jumps) program_.code[at].target = labels.at(label);
        for (const auto& [at, label] : table_jumps)
            for (const std::string& target : tables.at(label))
                program_.code[at].targets.push_back(labels.at(target));
        return placed;
    }

    void declare(Names& names, const std::string& statement) {
        if (statement.starts_with(".pragma") || statement.starts_with(".loc ")) return;
        const Declared d(statement);
        if (statement.starts_with(".reg")) {
            if (d.is_range) names.prefix_bits[d.name] = d.bits;
            else names.bits[d.name] = d.bits;
        } else if (statement.starts_with(".local") || statement.starts_with(".param")) {
            // param0 is declared again for each call, not always of one size.
            names.rows[d.name] = lane_address(d.bytes);
            names.bytes[d.name] = d.bytes;
        } else {
            refuse("a declaration that is not supported", statement);
        }
    }

    void instruction(Names& names, const std::string& statement, const Placed& placed,
                     bool is_kernel, std::vector<std::pair<std::size_t, std::string>>& jumps,
                     std::vector<std::pair<std::size_t, std::string>>& table_jumps) {
        std::string rest = statement;
        Op op;
        op.text = statement;
        if (rest[0] == '@') {
            const auto end = rest.find_first_of(" \t");
            std::string guard = rest.substr(1, end - 1);
            op.negated = guard[0] == '!';
            op.guard = operand(names, guard.substr(op.negated ? 1 : 0));
            rest = trimmed(rest.substr(end));
        }
        const auto end = std::min(rest.find_first_of(" \t\n("), rest.size());
        const std::string name = rest.substr(0, end);
        rest = trimmed(rest.substr(end));
        if (name == "call" || name == "call.uni") return call(names, rest, op);
        find_instruction(name, op);
        std::vector<std::string> operands = parts_of(rest);
        if (op.kind == Op::Kind::branch) {
            if (name.starts_with("brx")) {
                op.from[0] = operand(names, operands.at(0));
                table_jumps.emplace_back(program_.code.size(), operands.at(1));
            } else {
                jumps.emplace_back(program_.code.size(), operands.at(0));
            }
        } else if (op.kind == Op::Kind::ret) {
            op.return_row = placed.return_row;
            if (is_kernel) op.kind = Op::Kind::end;
        } else if (op.kind == Op::Kind::plain) {
            plain(names, name, operands, op);
        }
        program_.code.push_back(op);
    }

    void plain(Names& names, const std::string& name, const std::vector<std::string>& operands,
               Op& op) {
        int to = 0, from = 0;
        const auto list = [&](const std::string& text, std::int32_t* rows, int& next) {
            const auto split = text.find('|');
            if (text[0] == '{') {
                for (const std::string& one : parts_of(text.substr(1, text.size() - 2)))
                    rows[next++] = operand(names, one);
            } else if (split != std::string::npos) {
                rows[next++] = operand(names, text.substr(0, split));
                rows[next++] = operand(names, text.substr(split + 1));
            } else {
                rows[next++] = operand(names, text);
            }
        };
        const bool is_store = name.starts_with("st.") || name == "st" || name.starts_with("red.");
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const std::string& text = operands[i];
            if (text[0] == '[') address(names, text, op, from++);
            else if (i == 0 && !is_store) list(text, op.to, to);
            else if (text[0] == '!') refuse("a negated operand", op.text);
            else list(text, op.from, from);
        }
        if (op.to[0] >= 0 && !is_store) {
            std::string first = operands[0][0] == '{'
                                    ? parts_of(operands[0].substr(1, operands[0].size() - 2))[0]
                                    : operands[0].substr(0, operands[0].find('|'));
            op.to_bits = static_cast<std::uint8_t>(bits_of(names, first));
        }
    }

    // (retval0), function, (param0, param1): the arguments are copied to the callee's, later the
    // result to the caller's.
    void call(Names& names, const std::string& rest, Op op) {
        std::vector<std::string> operands = parts_of(rest), results, arguments;
        const auto names_in = [](const std::string& list) {
            return parts_of(list.substr(1, list.size() - 2));
        };
        std::size_t i = 0;
        if (operands.at(0)[0] == '(') results = names_in(operands[i++]);
        const Placed& callee = place(operands.at(i++), false);
        if (i < operands.size()) arguments = names_in(operands[i]);
        const auto copy = [&](std::int32_t from, std::int32_t to, std::uint32_t bytes) {
            for (std::uint32_t done = 0; done < bytes; done += 8) {
                Op move;
                find_instruction("copy", move);
                move.text = op.text;
                move.cost = Class::free;  // arguments are in registers on a GPU
                move.guard = op.guard;
                move.negated = op.negated;
                move.from[0] = from;
                move.from[1] = to;
                move.offset = done;
                move.bytes = static_cast<std::uint8_t>(std::min(bytes - done, 8u));
                program_.code.push_back(move);
            }
        };
        for (std::size_t k = 0; k < arguments.size(); ++k)
            copy(names.rows.at(arguments[k]), callee.parameters.at(k), callee.parameter_bytes[k]);
        op.kind = Op::Kind::call;
        op.cost = Class::control;
        op.target = callee.entry;
        op.return_row = callee.return_row;
        program_.code.push_back(op);
        for (std::size_t k = 0; k < results.size(); ++k)
            copy(callee.results.at(k), names.rows.at(results[k]), callee.result_bytes[k]);
    }

    const std::map<std::string, Function>& functions_;
    Program& program_;
    std::map<std::string, Placed> placed_;
    std::map<std::uint64_t, std::int32_t> constants_;
};

}  // namespace

std::map<std::string, Function> read_functions(const std::string& ptx) {
    const std::string text = without_comments(ptx);
    std::map<std::string, Function> functions;
    static const std::regex header(
        R"((?:\.visible |\.weak |\.extern )*\.(entry|func)\s*(\([^)]*\))?\s*([\w$]+)\s*(\([^)]*\))?)");
    std::size_t at = 0;
    while (true) {
        at = text.find_first_not_of(" \t\r\n", at);
        if (at == std::string::npos) break;
        if (text.compare(at, 8, ".version") == 0 || text.compare(at, 7, ".target") == 0 ||
            text.compare(at, 13, ".address_size") == 0) {
            at = text.find('\n', at);
            continue;
        }
        const std::size_t end = text.find_first_of(";{", at);
        if (end == std::string::npos) break;
        const std::string head = text.substr(at, end - at);
        std::smatch m;
        if (!std::regex_search(head, m, header)) refuse("a part of another form", trimmed(head));
        at = end + 1;
        if (text[end] == ';') continue;  // a declaration
        Function f{m[3], {}, {}, {}};
        const auto inside = [](const std::string& list) {
            return list.size() < 2 ? std::vector<std::string>{}
                                   : parts_of(list.substr(1, list.size() - 2));
        };
        f.results = inside(m[2].str());
        f.parameters = inside(m[4].str());
        for (int depth = 1; depth > 0;) {
            at = text.find_first_not_of(" \t\r\n", at);
            if (at == std::string::npos) refuse("a function without an end", f.name);
            if (text[at] == '{') ++depth, ++at;
            else if (text[at] == '}') --depth, ++at;
            else {
                const std::size_t stop = text.find_first_of(";:", at);
                const bool is_label =
                    text[stop] == ':' && text.find_first_of(" \t\n", at) > stop &&
                    trimmed(text.substr(stop + 1, 20)).find(".branchtargets") != 0;
                const std::size_t last = is_label ? stop : text.find(';', at);
                f.statements.push_back(trimmed(text.substr(at, last - at + (is_label ? 1 : 0))));
                at = last + 1;
            }
        }
        functions.emplace(f.name, std::move(f));
    }
    return functions;
}

Program decode(const std::map<std::string, Function>& functions, const std::string& kernel) {
    Program program;
    Decoder decoder(functions, program);
    program.entry = decoder.place(kernel, true).entry;
    return program;
}

}  // namespace apscope::interpreter
