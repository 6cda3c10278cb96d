// Tables as CSV. Numbers have the layout that Arrow's CSV writer gives them, since the Python
// package uses that writer.
#include <charconv>
#include <cmath>
#include <ostream>
#include <string>
#include <utility>

#include "bindings/cpp/source/written_table.h"

namespace apscope {
namespace {

// Appends the shortest digits that read back as the number. Numbers from 10^-6 to below 10^10 have
// no exponent.
void append_real(double x, std::string& out) {
    if (std::isnan(x)) return;  // an empty cell
    if (std::signbit(x)) out += '-';
    const double size = std::abs(x);
    if (size == 0 || std::isinf(size)) {
        out += size == 0 ? "0" : "inf";
        return;
    }
    char text[32];
    const std::string_view found(
        text, static_cast<std::size_t>(
                  std::to_chars(text, text + sizeof text, size, std::chars_format::scientific).ptr -
                  text));
    const std::size_t e = found.find('e');
    std::string digits(found.substr(0, e));
    std::erase(digits, '.');
    int exponent = 0;
    for (const char c : found.substr(e + 2)) exponent = 10 * exponent + (c - '0');
    if (found[e + 1] == '-') exponent = -exponent;
    const int count = static_cast<int>(digits.size());
    if (exponent < -6 || exponent >= 10) {
        out += digits[0];
        if (count > 1) out.append(".").append(digits, 1);
        out += exponent < 0 ? "e-" : "e+";
        out += std::to_string(std::abs(exponent));
    } else if (exponent < 0) {
        out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
    } else {
        const auto whole = static_cast<std::size_t>(exponent + 1);
        if (count <= exponent + 1) {
            out.append(digits).append(whole - digits.size(), '0');
        } else {
            out.append(digits, 0, whole).append(".").append(digits, whole);
        }
    }
}

// True if a spreadsheet would run the text as a formula, or if it has apostrophes before such text.
bool is_like_a_formula(std::string_view text) {
    const std::size_t begin = text.find_first_not_of('\'');
    if (begin == std::string_view::npos) return false;
    text.remove_prefix(begin);
    constexpr std::string_view full_width[] = {"\uff0b", "\uff0d", "\uff1d", "\uff20"};  // + - = @
    for (const std::string_view sign : full_width)
        if (text.starts_with(sign)) return true;
    return std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos;
}

void append_text(std::string_view text, std::string& out) {
    if (text.empty()) return;
    out += '"';
    if (is_like_a_formula(text)) out += '\'';
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    out += '"';
}

struct Append {
    std::size_t row;
    std::string& out;

    void operator()(const WrittenTable::Text& text) const { append_text(text(row), out); }
    void operator()(const WrittenTable::Integer& integer) const {
        if (const auto value = integer.at(row)) out += std::to_string(*value);
    }
    void operator()(const WrittenTable::Real& real) const { append_real(real(row), out); }
    void operator()(const WrittenTable::Flag& flag) const {
        out += flag(row) ? "\"True\"" : "\"False\"";
    }
};

}  // namespace

void write_csv(const WrittenTable& table, std::ostream& out) {
    std::string line;
    const auto end = [&] {
        line.back() = '\n';  // replaces the comma after the last cell
        out << line;
        line.clear();
    };
    for (const WrittenTable::Column& column : table.columns) line += column.name + ",";
    end();
    for (std::size_t row = 0; row < table.rows; ++row) {
        for (const WrittenTable::Column& column : table.columns) {
            std::visit(Append{row, line}, column.cells);
            line += ',';
        }
        end();
    }
}

}  // namespace apscope
