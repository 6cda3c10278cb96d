// A Record contains structs that a scheme fills in. The types of the structs are defined in the
// scheme's file; other code (files, Python) gets their members as named rows of numbers. A scheme's
// memory from step to step is a record, and so are the parameters of a step other than scales.
//
// A part of a record is a struct with a member `void fields(Fields&)`, which names its members. A
// combinator adds its structs to the record of the inner scheme.
#pragma once

#include <any>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "core/parse.h"
#include "emulation/machine/buffers.h"

namespace apscope::detail {

using Row = Buffer<double>;                    // one worker's values, or a sum over the workers
using Rows = std::vector<Row>;                 // one row per worker
using NamedRows = std::map<std::string, Row>;  // a record as named rows

// Writes the members of a struct as named rows, or reads them from such rows. Members are copied
// or, from a record that is no longer used, moved. Reading does not change a member without a row.
// Integers up to 2^53 and truth values are stored as fp64 numbers. Rows without elements are not
// written.
class Fields {
public:
    enum class Way { takes, copies, moves };

    Fields(NamedRows& rows, Way way) : rows_(rows), way_(way) {}

    // Writes or reads one row with these numbers, in this order.
    template <class... Number>
    void numbers(const std::string& name, Number&... number) {
        if (writes()) {
            rows_[name] = {static_cast<double>(number)...};
            return;
        }
        const Row row = take(name);
        if (row.empty()) return;
        if (row.size() != sizeof...(number)) {
            throw std::invalid_argument("the state's '" + name + "' has " +
                                        std::to_string(row.size()) + " numbers; it must have " +
                                        std::to_string(sizeof...(number)));
        }
        const double* next = row.data();
        ((number = read<Number>(name, *next++)), ...);
    }
    void row(const std::string& name, Row& row) {
        if (writes()) {
            if (!row.empty()) rows_[name] = way_ == Way::moves ? std::move(row) : row;
        } else if (Row values = take(name); !values.empty()) {
            row = std::move(values);
        }
    }
    template <class Number>
    void row(const std::string& name, std::vector<Number>& row) {
        if (writes()) {
            if (!row.empty()) rows_[name] = Row(row.begin(), row.end());
        } else if (const Row values = take(name); !values.empty()) {
            row.clear();
            for (const double number : values) row.push_back(read<Number>(name, number));
        }
    }
    // Writes or reads one row per worker: name/0, name/1, ...
    void rows(const std::string& name, Rows& rows) {
        for (std::size_t w = 0; writes() ? w < rows.size() : rows_.contains(numbered(name, w));
             ++w) {
            if (!writes()) rows.resize(w + 1);
            row(numbered(name, w), rows[w]);
        }
    }
    // Writes or reads a map, with one row name/KEY for each entry. A value is a number, a row, or a
    // struct whose members() is a tuple of references to numbers.
    template <class Value>
    void each(const std::string& name, std::map<std::string, Value>& values) {
        if (!writes()) {
            const std::string prefix = name + "/";
            for (auto entry = rows_.lower_bound(prefix);
                 entry != rows_.end() && entry->first.starts_with(prefix); ++entry) {
                values.try_emplace(entry->first.substr(prefix.size()));
            }
        }
        for (auto& [key, value] : values) {
            const std::string full = name + "/" + key;
            if constexpr (std::is_arithmetic_v<Value>) numbers(full, value);
            else if constexpr (requires { value.members(); })
                std::apply([&](auto&... member) { numbers(full, member...); }, value.members());
            else row(full, value);
        }
    }
    // The rows to write or to read, for a struct that looks up names itself.
    NamedRows& all() { return rows_; }
    bool writes() const { return way_ != Way::takes; }

private:
    // Converts a number of a row. Throws std::invalid_argument if Number is an integer type and the
    // number is not an integer in its range.
    template <class Number>
    static Number read(const std::string& name, double number) {
        if constexpr (std::is_integral_v<Number>) {
            constexpr bool is_signed = std::is_signed_v<Number> && !std::is_same_v<Number, bool>;
            constexpr double most = std::is_same_v<Number, bool> ? 1.0
                                    : sizeof(Number) < 8
                                        ? static_cast<double>(std::numeric_limits<Number>::max())
                                        : 0x1p53;
            if (!(number <= most && number >= (is_signed ? -most : 0.0)) ||
                number != std::floor(number))
                refuse(name, number);
        }
        return static_cast<Number>(number);
    }
    [[noreturn]] static void refuse(const std::string& name, double number) {
        throw std::invalid_argument("the state's '" + name + "' has " + shortest(number) +
                                    ", which is not an integer in its range");
    }
    static std::string numbered(const std::string& name, std::size_t w) {
        return name + "/" + std::to_string(w);
    }
    Row take(const std::string& name) {
        auto entry = rows_.extract(name);
        return entry.empty() ? Row{} : std::move(entry.mapped());
    }

    NamedRows& rows_;
    Way way_;
};

class Record {
public:
    Record() = default;
    explicit Record(NamedRows rows) : others_(std::move(rows)) {}

    // The struct of this type. The first call makes the struct from `initial`, and reads the
    // members for which the record has rows. Only one thread at a time may use a record, even a
    // const one.
    template <class Part>
    Part& of(Part initial = {}) {
        return part(std::move(initial));
    }
    template <class Part>
    const Part& of() const {
        return part(Part{});
    }

    NamedRows rows() const& {
        NamedRows all = others_;
        Fields fields(all, Fields::Way::copies);
        for (auto& [type, entry] : parts_) entry.fields(entry.part, fields);
        return all;
    }
    // The rows of a record that is no longer needed. No row is copied.
    NamedRows rows() && {
        NamedRows all = std::move(others_);
        Fields fields(all, Fields::Way::moves);
        for (auto& [type, entry] : parts_) entry.fields(entry.part, fields);
        parts_.clear();
        return all;
    }

private:
    struct Entry {
        std::any part;
        void (*fields)(std::any&, Fields&);
    };
    template <class Part>
    Part& part(Part initial) const {
        const auto [place, is_new] = parts_.try_emplace(std::type_index(typeid(Part)));
        Entry& entry = place->second;
        if (is_new) {
            entry = {std::move(initial), [](std::any& any, Fields& fields) {
                         std::any_cast<Part&>(any).fields(fields);
                     }};
            Fields fields(others_, Fields::Way::takes);
            entry.fields(entry.part, fields);
        }
        return std::any_cast<Part&>(entry.part);
    }

    mutable std::map<std::type_index, Entry> parts_;
    mutable NamedRows others_;  // rows that no struct has read
};

using State = Record;

}  // namespace apscope::detail
