/* A library whose constructor waits for the GIL, as those of extensions may, while its thread holds the dynamic linker's lock. */

#include <stdlib.h>
#include <unistd.h>

int PyGILState_Ensure(void);
void PyGILState_Release(int);

__attribute__((constructor)) static void begin(void)
{
    (void)!write(atoi(getenv("LOADING")), "x", 1);
    /* Until the main thread holds the GIL permanently. */
    usleep(300000);
    PyGILState_Release(PyGILState_Ensure());
}
