// Tables as Parquet files, without compression. Arrow and pandas read the files; in pandas their
// columns have the types of the Python package's tables.
#pragma once

#include <iosfwd>

#include "bindings/cpp/source/written_table.h"

namespace apscope {

// Writes a table; the file names this library and its version as its creator.
void write_parquet(const WrittenTable& table, std::ostream& out);

}  // namespace apscope
