#include "beside.h"

#include <stddef.h>

/* The library's, where it is preloaded. */
__attribute__((weak, visibility("default"))) extern void fastsock_preload_stand_aside(void);

/* Two cores would each add memory to one connection: the Python one's loads later, and knows the program's objects. */
int fs_be_alone(void)
{
    if (fastsock_preload_stand_aside == NULL) return 0;
    fastsock_preload_stand_aside();
    return 1;
}

__attribute__((constructor)) static void at_load(void) { fs_be_alone(); }
