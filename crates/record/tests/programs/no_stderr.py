"""Was started without standard error, and gets its number for a file of its own. Then no recording can be written, which the
recorder would say: the child's, as a file is where its folder was.

    python no_stderr.py FILE RUN
"""

import os
import shutil
import sys

own = open(sys.argv[1], "w")
print(own.fileno(), "is mine", file=own, flush=True)
shutil.rmtree(sys.argv[2])
open(sys.argv[2], "w").close()
child = os.fork()
if child:
    os.waitpid(child, 0)
