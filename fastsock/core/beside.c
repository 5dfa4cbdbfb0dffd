#include "beside.h"

#include <stddef.h>

/* The library's, where it is preloaded. */
__attribute__((weak, visibility("default"))) extern void fastsock_preload_stand_aside(void);

/* Two cores would each add memory to one connection: the Python one's loads later, and knows the program's objects. */
__attribute__((constructor)) static void at_load(void)
{
    if (fastsock_preload_stand_aside != NULL) fastsock_preload_stand_aside();
}

int fs_beside_share(int wanted)
{
    (void)wanted;
    return 0;
}

int fs_beside_pass(int descriptor)
{
    (void)descriptor;
    return -1;
}

void fs_beside_reports(int python) { (void)python; }
uint32_t fs_beside_entered(void) { return 0; }
