"""apscope shows what a low-precision gradient loses, exactly."""
