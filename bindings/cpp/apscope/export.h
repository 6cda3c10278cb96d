// One macro: marks what the library offers to others; everything else in it stays hidden.
#pragma once

#define APSCOPE_API __attribute__((visibility("default")))
