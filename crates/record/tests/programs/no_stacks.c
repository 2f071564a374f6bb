/* Refuses the memory for the recorder's signal handler: inaccessible mappings for stacks. Loaded by LD_PRELOAD. */

#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    if (protection == PROT_NONE && (flags & MAP_STACK)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}
