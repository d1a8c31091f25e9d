# cmake -D server=FILE -D control=FILE -P none_in_server.cmake: that `server` holds nothing of the faults that tests put into
# theirs, of which `control` is one. Looks for strings, which a stripped program has as well.
foreach(file control server)
  file(STRINGS "${${file}}" found_in_${file} REGEX "lion::faults|lion6faults|PuppetEngine|HeldThreads")
endforeach()
if(NOT found_in_control)
  message(FATAL_ERROR "no faults in ${control}, which has them: this search finds nothing")
endif()
if(found_in_server)
  message(FATAL_ERROR "faults of tests are in ${server}: ${found_in_server}")
endif()
