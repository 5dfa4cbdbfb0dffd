#include "sharing.h"

#include "beside.h"
#include "process.h"

#define FOR_PYTHON __attribute__((visibility("default")))

_Atomic int fs_python_reports;
_Thread_local int fs_passing = -1;
static _Atomic uint32_t entered;

void fs_sharing_entered(void) { atomic_fetch_add(&entered, 1); }

/* Without the rules' outcome no connection may have memory by this library's doors, and Python reads the rules itself. */
FOR_PYTHON int fs_beside_share(int wanted)
{
    fs_process_begin();
    if (!wanted || fs_memory_is_off == FS_MEMORY_LACKS_RULES) atomic_store(&fs_stands_aside, 1);
    return !atomic_load(&fs_stands_aside);
}

FOR_PYTHON int fs_beside_pass(int descriptor)
{
    int before = fs_passing;
    fs_passing = descriptor;
    return before;
}

FOR_PYTHON void fs_beside_reports(int python) { atomic_store(&fs_python_reports, python); }
FOR_PYTHON uint32_t fs_beside_entered(void) { return atomic_load(&entered); }
