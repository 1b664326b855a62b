/* The inner loops of loading a trace, compiled where a C compiler is at hand. Plain C without the
   Python API: loaded by ctypes, which lets other threads run meanwhile. Whatever is here is also in
   Python, with the same results. */

#include <stdint.h>

/* Raised with every change of a function's meaning, and in native.py with it. */
int32_t perftui_native_version(void) { return 15; }
