// A Parquet file is "PAR1", the pages of every column of every group of rows, a description of all
// of them, the length of this description in four bytes, and "PAR1". Descriptions are structs in
// Thrift's compact protocol: the first byte of a field has the difference between its number and
// that of the field before, and its type.
#include "bindings/cpp/source/parquet.h"

#include <apscope/version.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "bindings/cpp/source/json_text.h"
#include "bindings/cpp/source/little_endian.h"

namespace apscope {
namespace {

constexpr std::size_t rows_of_group = 65'536;

// Codes of the Parquet format.
enum Physical { boolean = 0, int64 = 2, real64 = 5, byte_array = 6 };
enum Page { data_page = 0, dictionary_page = 2 };
enum Encoding { plain = 0, run_length = 3, dictionary = 8 };
constexpr int optional = 1, utf8 = 0;  // a repetition type, a converted type

// A struct in Thrift's compact protocol.
class Thrift {
public:
    void integer32(int field, std::int64_t value) { begin(field, 5), zigzag(value); }
    void integer64(int field, std::int64_t value) { begin(field, 6), zigzag(value); }
    void text(int field, std::string_view value) { begin(field, 8), bytes(value); }
    void nested(int field, Thrift value) { begin(field, 12), out_ += std::move(value).take(); }
    void integers(int field, const std::vector<std::int64_t>& values) {
        list(field, values.size(), 5);
        for (const std::int64_t value : values) zigzag(value);
    }
    void texts(int field, const std::vector<std::string>& values) {
        list(field, values.size(), 8);
        for (const std::string& value : values) bytes(value);
    }
    void structs(int field, std::vector<Thrift> values) {
        list(field, values.size(), 12);
        for (Thrift& value : values) out_ += std::move(value).take();
    }
    std::string take() && { return std::move(out_) + '\0'; }

    static void varint(std::uint64_t value, std::string& out) {
        for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
        out += static_cast<char>(value);
    }

private:
    void begin(int field, int type) {
        out_ += static_cast<char>((field - last_) << 4 | type);
        last_ = field;
    }
    void list(int field, std::size_t size, int type) {
        begin(field, 9);
        out_ += static_cast<char>(static_cast<int>(size < 15 ? size : 15) << 4 | type);
        if (size >= 15) varint(size, out_);
    }
    void zigzag(std::int64_t value) {
        varint(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63),
               out_);
    }
    void bytes(std::string_view value) {
        varint(value.size(), out_);
        out_ += value;
    }

    std::string out_;
    int last_ = 0;
};

void append_length(std::size_t length, std::string& out) {
    out += bytes_of(static_cast<std::uint32_t>(length));
}

// Parquet's run-length encoding, without bit-packed runs: each run of equal numbers has twice its
// length as a varint, and the number in `bytes` bytes.
class Runs {
public:
    explicit Runs(std::size_t bytes) : bytes_(bytes) {}
    void add(std::size_t value) {
        if (count_ > 0 && value != value_) end();
        value_ = value;
        ++count_;
    }
    std::string take() && {
        end();
        return std::move(out_);
    }

private:
    void end() {
        if (count_ == 0) return;
        Thrift::varint(count_ << 1, out_);
        out_ += bytes_of(value_).substr(0, bytes_);
        count_ = 0;
    }

    std::size_t bytes_, value_ = 0, count_ = 0;
    std::string out_;
};

// The encoded cells of a column in a group of rows.
struct Pages {
    Runs there{1};             // per cell 1, or 0 for an empty cell
    std::string values,        // the values of the other cells; for texts, indices into `texts`
        texts;                 // the different texts of the column, each after its length
    std::size_t distinct = 0;  // number of different texts
};

// Encodes the cells of the rows first to first + count - 1 of a column.
struct Collect {
    std::size_t first, count;

    Pages operator()(const WrittenTable::Text& text) const {
        Pages pages;
        std::map<std::string, std::size_t, std::less<>> known;
        std::vector<std::size_t> places;
        for (std::size_t i = 0; i < count; ++i) {
            pages.there.add(1);
            const std::string_view cell = text(first + i);
            auto at = known.find(cell);
            if (at == known.end()) {
                at = known.emplace(cell, known.size()).first;
                append_length(cell.size(), pages.texts);
                pages.texts += cell;
            }
            places.push_back(at->second);
        }
        pages.distinct = known.size();
        const int bits = std::max(1, static_cast<int>(std::bit_width(known.size() - 1)));
        Runs runs((static_cast<std::size_t>(bits) + 7) / 8);
        for (const std::size_t place : places) runs.add(place);
        pages.values = static_cast<char>(bits) + std::move(runs).take();
        return pages;
    }
    Pages operator()(const WrittenTable::Integer& integer) const {
        Pages pages;
        for (std::size_t i = 0; i < count; ++i) {
            const auto value = integer.at(first + i);
            pages.there.add(value ? 1 : 0);
            if (value) pages.values += bytes_of(*value);
        }
        return pages;
    }
    Pages operator()(const WrittenTable::Real& real) const {
        Pages pages;
        for (std::size_t i = 0; i < count; ++i) {
            const double value = real(first + i);
            pages.there.add(std::isnan(value) ? 0 : 1);
            if (!std::isnan(value)) pages.values += bytes_of(value);
        }
        return pages;
    }
    Pages operator()(const WrittenTable::Flag& flag) const {
        Pages pages;
        pages.values.assign((count + 7) / 8, '\0');
        for (std::size_t i = 0; i < count; ++i) {
            pages.there.add(1);
            if (flag(first + i)) pages.values[i / 8] |= static_cast<char>(1 << i % 8);
        }
        return pages;
    }
};

// A column's type in Parquet, and the names `pandas_type` and `numpy_type` of pandas' metadata.
struct Type {
    Physical physical;
    const char *logical, *in_pandas;
};
Type type_of(const WrittenTable::Column& column) {
    if (std::holds_alternative<WrittenTable::Text>(column.cells))
        return {byte_array, "unicode", "object"};
    if (const auto* integer = std::get_if<WrittenTable::Integer>(&column.cells))
        return {int64, "int64", integer->nullable ? "Int64" : "int64"};
    if (std::holds_alternative<WrittenTable::Real>(column.cells))
        return {real64, "float64", "float64"};
    return {boolean, "bool", "bool"};
}

class File {
public:
    File(const WrittenTable& table, std::ostream& out) : table_(table), out_(out) { put("PAR1"); }

    // Writes a group of rows; returns its description.
    Thrift group(std::size_t first, std::size_t count) {
        const std::size_t begin = at_;
        std::vector<Thrift> columns;
        for (const WrittenTable::Column& column : table_.columns)
            columns.push_back(chunk(column, first, count));
        Thrift group;
        group.structs(1, std::move(columns));
        group.integer64(2, static_cast<std::int64_t>(at_ - begin));
        group.integer64(3, static_cast<std::int64_t>(count));
        return group;
    }
    void end(Thrift description) {
        const std::string bytes = std::move(description).take();
        std::string length;
        append_length(bytes.size(), length);
        put(bytes), put(length), put("PAR1");
    }

private:
    void put(std::string_view bytes) {
        out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        at_ += bytes.size();
    }
    // Writes a page. `field` is the number of the header's field that describes pages of this type.
    void page(Page type, int field, std::size_t values, Encoding encoding,
              const std::string& bytes) {
        Thrift about, header;
        about.integer32(1, static_cast<std::int64_t>(values));
        about.integer32(2, encoding);
        if (type == data_page) {
            about.integer32(3, run_length);
            about.integer32(4, run_length);
        }
        header.integer32(1, type);
        header.integer32(2, static_cast<std::int64_t>(bytes.size()));
        header.integer32(3, static_cast<std::int64_t>(bytes.size()));
        header.nested(field, std::move(about));
        put(std::move(header).take());
        put(bytes);
    }
    // Writes a column of a group of rows; returns its description.
    Thrift chunk(const WrittenTable::Column& column, std::size_t first, std::size_t count) {
        Pages pages = std::visit(Collect{first, count}, column.cells);
        const bool has_texts = std::holds_alternative<WrittenTable::Text>(column.cells);
        const std::size_t begin = at_;
        if (has_texts) page(dictionary_page, 7, pages.distinct, plain, pages.texts);
        const std::size_t data = at_;
        const std::string there = std::move(pages.there).take();
        std::string bytes;
        append_length(there.size(), bytes);
        page(data_page, 5, count, has_texts ? dictionary : plain, bytes + there + pages.values);

        Thrift about, chunk;
        about.integer32(1, type_of(column).physical);
        about.integers(2, has_texts ? std::vector<std::int64_t>{plain, run_length, dictionary}
                                    : std::vector<std::int64_t>{plain, run_length});
        about.texts(3, {column.name});
        about.integer32(4, 0);  // no compression
        about.integer64(5, static_cast<std::int64_t>(count));
        about.integer64(6, static_cast<std::int64_t>(at_ - begin));
        about.integer64(7, static_cast<std::int64_t>(at_ - begin));
        about.integer64(9, static_cast<std::int64_t>(data));
        if (has_texts) about.integer64(11, static_cast<std::int64_t>(begin));
        chunk.integer64(2, static_cast<std::int64_t>(begin));
        chunk.nested(3, std::move(about));
        return chunk;
    }

    const WrittenTable& table_;
    std::ostream& out_;
    std::size_t at_ = 0;
};

std::vector<Thrift> schema_of(const WrittenTable& table) {
    std::vector<Thrift> schema(1);
    schema[0].text(4, "schema");
    schema[0].integer32(5, static_cast<std::int64_t>(table.columns.size()));
    for (const WrittenTable::Column& column : table.columns) {
        const Type type = type_of(column);
        Thrift element;
        element.integer32(1, type.physical);
        element.integer32(3, optional);
        element.text(4, column.name);
        if (type.physical == byte_array) {
            Thrift is_text;
            is_text.nested(1, {});
            element.integer32(6, utf8);
            element.nested(10, std::move(is_text));
        }
        schema.push_back(std::move(element));
    }
    return schema;
}

// The metadata from which pandas takes the types of columns. Without them, integers with empty
// cells would become floats.
std::string pandas_types(const WrittenTable& table) {
    Json columns = Json::array();
    for (const WrittenTable::Column& column : table.columns) {
        const Type type = type_of(column);
        columns.push_back(Json{{"name", column.name},
                               {"field_name", column.name},
                               {"pandas_type", type.logical},
                               {"numpy_type", type.in_pandas},
                               {"metadata", nullptr}});
    }
    return json_line({{"index_columns", Json::array()},
                      {"column_indexes", Json::array()},
                      {"columns", std::move(columns)},
                      {"attributes", Json::object()},
                      {"creator", {{"library", "apscope"}, {"version", version()}}}});
}

}  // namespace

void write_parquet(const WrittenTable& table, std::ostream& out) {
    File file(table, out);
    std::vector<Thrift> groups;
    for (std::size_t first = 0; first < table.rows; first += rows_of_group)
        groups.push_back(file.group(first, std::min(rows_of_group, table.rows - first)));
    Thrift types, description;
    types.text(1, "pandas");
    types.text(2, pandas_types(table));
    description.integer32(1, 2);
    description.structs(2, schema_of(table));
    description.integer64(3, static_cast<std::int64_t>(table.rows));
    description.structs(4, std::move(groups));
    description.structs(5, {std::move(types)});
    description.text(6, "apscope version " + std::string(version()));
    file.end(std::move(description));
}

}  // namespace apscope
