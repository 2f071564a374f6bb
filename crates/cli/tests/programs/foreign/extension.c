/* Threads of C that call back into Python, as an extension does. */
#include <pthread.h>
#include <stddef.h>

typedef void (*work)(int number);

typedef struct {
    work call;
    int number;
} task;

static void *run(void *argument) {
    task *mine = argument;
    for (int i = 0; i < 5; i++)
        mine->call(mine->number);
    return NULL;
}

int in_threads(work call, int count) {
    pthread_t threads[16];
    task tasks[16];
    if (count > 16)
        return -1;
    for (int i = 0; i < count; i++) {
        tasks[i] = (task){call, i};
        if (pthread_create(&threads[i], NULL, run, &tasks[i]))
            return -1;
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
